"""Sender, receiver and packet format of a coded stream, as state machines without sockets or clocks."""
