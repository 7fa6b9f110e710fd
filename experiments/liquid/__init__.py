"""Chapter 3: liquid schedules, their construction and their execution on switches."""

# The chapter of the documentation that describes these studies.
CHAPTER = 3
