"""Bulk transfers without I/O: messages, the circuit arbiter, the coordinator, and from measurements to a verdict."""
