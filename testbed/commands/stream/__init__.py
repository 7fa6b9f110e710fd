"""Commands that send streams."""
