"""Commands of striped files and of programs on emulated hosts."""
