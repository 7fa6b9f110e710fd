"""Searches for static routes; ``topologies.routing_tables`` registers them under their names."""
