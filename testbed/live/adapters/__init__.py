"""Where the live page meets the machine: what feeds it from a run, and the process that serves it."""
