"""The adapters of the live page: the feed from a run, and the process that serves the page."""
