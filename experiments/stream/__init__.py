"""Chapter 4 on packets: coded streams while links fail or nodes move."""

CHAPTER = 4
"""The chapter of our documentation in which its studies stand."""
