"""WireGuard's interfaces on the machines, and the exchange of their public keys."""
