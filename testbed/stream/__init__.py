"""Plans, predicts, runs and judges a coded stream over a split route."""
