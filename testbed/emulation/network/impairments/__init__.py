"""Impairs links of an emulated network: a process delays, drops or copies their packets."""
