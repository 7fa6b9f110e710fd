"""The simulator held against other simulators of interconnection networks."""
