"""Drawings that all workloads share: networks, frames, time lines, axes, colours."""
