"""What enters the simulated network: patterns, injections, files of messages."""
