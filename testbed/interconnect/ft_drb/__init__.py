"""FT-DRB: decisions of the source and escape paths, on arrays."""
