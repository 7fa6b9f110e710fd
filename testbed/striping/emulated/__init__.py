"""Striped files on switches, or over loopback on a machine that cannot build switches.

User programs run on the same hosts and listeners.
"""
