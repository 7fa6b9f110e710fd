"""Packing into bins of equal size: greedy, by ejection, and by CP-SAT."""
