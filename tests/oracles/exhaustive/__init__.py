"""NAC in every order of events, written for reading: what the compiled exploration is held against."""
