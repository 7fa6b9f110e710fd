"""The coordinator of the processes that use striped files together."""
