"""How nodes and links are written, read and shown."""
