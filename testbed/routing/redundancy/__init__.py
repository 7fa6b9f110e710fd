"""What redundancy a route calls for: failures that overlap, the route of least ROR."""
