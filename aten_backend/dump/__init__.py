"""What became of each graph, written to a folder: every stage's artefact as text, kernels and graphs that run alone,
and a page to click through. Only `replay` is for the scripts that a dump holds."""
