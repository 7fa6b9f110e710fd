"""Traffic that enters the simulated network: destination patterns and injection processes."""
