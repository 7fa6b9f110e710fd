"""Impaired links of an emulated network: by the kernel's netem where it has one, else by a process that packets pass on
their way."""
