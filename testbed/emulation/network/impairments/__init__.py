"""Impaired links of an emulated network: by a process that packets pass on their way."""
