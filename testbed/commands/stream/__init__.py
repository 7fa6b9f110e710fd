"""Commands that stream."""
