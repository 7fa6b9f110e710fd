"""Exchanges of time stamps over real sockets."""
