"""One emulated network that is spread over several machines: its placement, clocks and reports."""
