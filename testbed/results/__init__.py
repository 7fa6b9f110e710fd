"""What is kept on disk: runs, studies, traces."""
