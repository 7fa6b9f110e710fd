"""What this machine offers, how hard a run was on it, and what to note about it."""
