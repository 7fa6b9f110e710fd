"""Flows that every routing is made of: end points, cheapest flows, linear programmes, exact repair."""
