"""Execution traces of parallel programs (Chakra): messages that wait for each other, and when each of them starts on a
network."""
