"""Studies of random failures in time: what they cost, alone and if they overlap.

The cost is that of Gabrielyan 2007, eq. 21 and 22. Overlapping failures are those of appendix G.
"""

# The page of docs/replication that describes these studies.
PAGE = "failures_in_time"
