"""Where a file's bytes lie: striping, merged requests, pieces of memory."""
