"""The engine that runs: its state as arrays, its steps compiled by numba."""
