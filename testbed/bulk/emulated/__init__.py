"""Bulk transfers on real switches: processes that own the hosts' sockets, circuits in switches, and the loop between
them.

``fabric`` holds the network and reads its counters around a run, ``run`` prepares one plan and calibrates,
``endpoints`` are the processes (``sender``, ``receiver``), and ``switchboard`` speaks to the switches and has the
loop.
"""
