"""Text files, and quantities that are written as text. Nothing here knows about networks."""
