"""The exact search of the thesis, its full teams, and the integer programme."""
