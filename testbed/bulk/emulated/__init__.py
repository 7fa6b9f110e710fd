"""A bulk plan on real switches: agents in hosts, circuits in switches."""
