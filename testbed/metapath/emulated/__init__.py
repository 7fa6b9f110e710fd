"""Runs uncoded streams on emulated hosts and switches."""
