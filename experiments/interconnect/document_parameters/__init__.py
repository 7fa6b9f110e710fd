"""Studies of parameters that the document states but other studies omit, or does not state."""
