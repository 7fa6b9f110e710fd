"""Wavelengths: lightpaths assigned to rounds, checked, carried by switches; bursts."""
