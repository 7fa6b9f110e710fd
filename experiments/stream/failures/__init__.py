"""Studies of random failures in time: what they cost, alone and if they overlap.

The cost is the number of additional packets (Gabrielyan 2007, eq. 21 and 22). Appendix G of this
thesis treats overlapping failures.
"""

# The page of docs/replication that describes these studies.
PAGE = "failures_in_time"
