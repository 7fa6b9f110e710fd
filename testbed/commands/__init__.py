"""The commands: arguments to calls, results to text."""
