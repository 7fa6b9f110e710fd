"""What the judgements of several workloads share."""
