"""Studies that compare routings of other authors with those of the papers.

All routings run on the same networks and are judged by the same checkers.
"""

# The chapter of our documentation that describes these studies.
CHAPTER = 4

# Their page in docs/replication.
PAGE = "comparers"
