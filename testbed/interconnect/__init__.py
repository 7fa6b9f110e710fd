"""The router simulator: virtual cut-through, finite buffers, two engines with equal histories."""
