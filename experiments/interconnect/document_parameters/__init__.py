"""Studies of the document's parameters: those that the other studies leave out, and those that it does not give."""
