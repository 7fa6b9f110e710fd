"""Runs bulk transfers on emulated hosts and switches.

- ``fabric`` owns the network, and reads its counters before and after a run.
- ``run`` prepares one plan and calibrates.
- ``endpoints`` are the processes that own the hosts' sockets (``sender``, ``receiver``).
- ``switchboard`` configures the switches, and has the main loop.
"""
