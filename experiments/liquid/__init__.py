"""Chapter 3: liquid schedules, their construction and their execution on switches."""

CHAPTER = 3
"""The chapter of our documentation in which its studies stand."""
