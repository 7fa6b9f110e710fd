"""Striped files over a network: who computes, who keeps the subfiles, what is accessed, and how fast the network lets it be."""
