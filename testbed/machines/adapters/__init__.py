"""Machines as processes and actors, the links between them, and the namespaces that stand for machines on one."""
