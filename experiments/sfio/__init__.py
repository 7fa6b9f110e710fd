"""Chapter 2: striped files over emulated networks."""
