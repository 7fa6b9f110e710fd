"""Chapter 4 on packets: coded streams while links fail or nodes move."""
