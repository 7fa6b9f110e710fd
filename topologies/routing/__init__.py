"""Searches for static routes (what they are registered as: ``topologies.routing_tables``)."""
