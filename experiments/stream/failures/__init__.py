"""Random failures in time: what they cost (Gabrielyan 2007, eq. 21 and 22), and what overlaps make of it (appendix
G)."""

PAGE = "failures_in_time"
"""Of docs/replication, in which its studies stand."""
