"""What a call's shape costs, and what each optimisation of it is worth (Gabrielyan 2007, sections 2.6 and 2.9)."""
