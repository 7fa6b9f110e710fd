"""Interfaces, queues, routes, namespaces and packet captures of the Linux kernel."""
