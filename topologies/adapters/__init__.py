"""Networks that programs describe: Mininet's Python files, run apart."""
