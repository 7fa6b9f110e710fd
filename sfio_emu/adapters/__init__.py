"""The outside world of the striped files: sockets, processes, files below a root."""
