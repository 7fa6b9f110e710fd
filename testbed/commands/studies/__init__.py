"""Commands that run, list and redraw studies."""
