"""Chapter 2 of Gabrielyan 2007: striped files over emulated networks."""

# The chapter of the documentation that describes these studies.
CHAPTER = 2
