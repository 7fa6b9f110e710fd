"""WireGuard between the machines of one network: what crosses from one to another is encrypted, and each takes only
what its peers sent."""
