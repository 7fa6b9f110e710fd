"""Commands that run, list and redraw studies; what a study is."""
