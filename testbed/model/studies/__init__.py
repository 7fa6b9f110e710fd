"""Studies as values: what is measured, how it is judged and drawn; a command runs them."""
