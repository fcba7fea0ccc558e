"""One trace for all: graphs after AOTAutograd, captured once, given to each compiler directly, and timed in parts."""
