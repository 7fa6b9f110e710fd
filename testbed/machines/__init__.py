"""One emulated network over several machines: where its nodes lie, and whose clock said what."""
