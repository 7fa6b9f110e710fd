"""Chapter 4: capillary routing and the redundancy that routes call for, computed."""

CHAPTER = 4
"""The chapter of our documentation in which its studies stand."""
