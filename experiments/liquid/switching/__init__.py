"""How switches forward: what stored messages, virtual links, smaller messages and distance change."""
