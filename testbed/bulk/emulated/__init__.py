"""Bulk transfers on real switches: processes that own the hosts' sockets, circuits in switches, and the loop between
them.

``fabric`` holds the network, ``measured_run`` reads its counters around a run, ``run`` prepares one plan and
calibrates, ``endpoints`` are the processes (``sender``, ``receiver``), ``switchboard`` speaks to the switches, and
``circuit_driver`` is the loop.
"""
