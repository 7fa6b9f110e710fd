"""Results on disk: runs, studies and failure traces."""
