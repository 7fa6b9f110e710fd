"""Chapter 2 of Gabrielyan 2007: striped files over emulated networks."""

CHAPTER = 2
"""The chapter of our documentation in which its studies stand."""
