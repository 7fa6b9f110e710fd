"""Studies of single accesses: their shape, and the worth of each optimisation.

Source: Gabrielyan 2007, sections 2.6 and 2.9.
"""
