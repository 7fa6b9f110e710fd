"""Machines as processes and Dask actors, their links, and namespaces that act as machines."""
