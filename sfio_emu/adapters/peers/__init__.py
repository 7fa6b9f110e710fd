"""Who is at the other end of a connection on this machine."""
