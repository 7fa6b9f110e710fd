"""SFIO: striped files over many I/O nodes (a later release)."""
