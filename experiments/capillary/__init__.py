"""Studies of chapter 4 that are computed: capillary routes and the redundancy that they need."""

# The chapter of our documentation that describes these studies.
CHAPTER = 4
