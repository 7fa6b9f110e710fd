"""Commands about routing and redundancy."""
