"""Commands of the router simulator."""
