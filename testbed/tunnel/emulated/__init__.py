"""The ends of a tunnel on real hosts."""
