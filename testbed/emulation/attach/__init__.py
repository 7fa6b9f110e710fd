"""A network that one process holds up and others reach: over its door come programs for hosts, failures, counters,
recordings.

``channel`` is how a request and its answer look on the socket, ``service`` what the holding process does with them,
``programs`` programs in hosts that end when their client disconnects, ``caller`` the other side; ``host_program`` is a
program of its own that stands for one in a host, so that pipes, terminals, signals and exit codes are those of any
local process.
"""
