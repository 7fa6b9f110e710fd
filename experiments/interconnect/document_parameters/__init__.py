"""Studies at parameters of the document that the other studies leave out."""
