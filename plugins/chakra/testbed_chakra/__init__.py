"""Execution traces of parallel programs (Chakra) as traffic.

A trace has messages that wait for each other. The package computes when each of them starts on a
network.
"""
