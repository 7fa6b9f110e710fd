"""Networks that programs describe: Mininet files in Python, which run in a sandbox."""
