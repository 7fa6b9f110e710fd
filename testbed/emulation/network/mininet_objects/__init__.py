"""Mininet's objects for a network that is built already: for its prompt and its Python interface."""
