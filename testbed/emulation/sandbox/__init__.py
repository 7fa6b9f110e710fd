"""The sandbox of a run: its namespaces, processes, and what they may do."""
