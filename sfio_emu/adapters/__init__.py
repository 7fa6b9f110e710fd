"""The parts that touch the outside world: sockets, processes, and files below a root directory."""
