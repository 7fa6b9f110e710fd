"""The load that a machine can carry, and how much a run loaded it."""
