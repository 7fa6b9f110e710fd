"""What a machine carries, and how far a run strained it."""
