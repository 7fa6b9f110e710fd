"""The thesis' exact search, its full teams, and the linear programme."""
