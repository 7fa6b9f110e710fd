"""The workload ``download``: a file over many paths to a host behind a slow last mile."""
