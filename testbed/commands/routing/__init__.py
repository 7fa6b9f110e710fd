"""Commands of routing and redundancy."""
