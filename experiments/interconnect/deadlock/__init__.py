"""Deadlock in the interconnect: NAC on rings, under traffic and in every order of events, and that no packet is
lost."""
