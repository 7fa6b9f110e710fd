"""Chapter 2 of Gabrielyan 2007: striped files over emulated networks."""
