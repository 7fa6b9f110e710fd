"""A coded stream over a split route: planned, predicted, run on either fabric, judged."""
