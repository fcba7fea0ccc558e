"""From FX graphs to kernel text. Knows no device: torch and the standard library only."""
