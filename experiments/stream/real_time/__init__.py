"""Section 4.3 of Gabrielyan 2007: real-time streams against their deadlines, and downloads that keep a last mile
full."""

PAGE = "real_time"
"""Of docs/replication, in which its studies stand."""
