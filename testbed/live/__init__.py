"""The live page of a run: the events of a run, their display, and the server (``adapters``)."""
