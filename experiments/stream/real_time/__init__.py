"""Studies of section 4.3 of Gabrielyan 2007: real-time streams and downloads.

Streams have deadlines for their packets. Downloads try to keep the last mile full.
"""

# The page of docs/replication that describes these studies.
PAGE = "real_time"
