"""The commands, which turn arguments into calls and results into text."""
