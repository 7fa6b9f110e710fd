"""Names of nodes and links: how they are read, written and shown."""
