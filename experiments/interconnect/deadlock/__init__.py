"""Studies of deadlock: NAC on rings, under traffic and in every order of events."""
