"""Studies of switching: stored messages, virtual links, smaller messages, and distance."""
