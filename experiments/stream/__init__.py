"""Studies of chapter 4 on packets: coded streams while links fail or nodes move."""

# The chapter of our documentation that describes these studies.
CHAPTER = 4
