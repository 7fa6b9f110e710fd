"""Streams over links that lose, delay, copy or reorder packets by chance."""
