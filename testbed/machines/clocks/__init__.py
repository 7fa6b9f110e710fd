"""Another machine's clock in ours: intervals that hold the truth, from four time stamps an exchange.

Pure but for ``adapters``: stamps come in as numbers, and no clock is read here.
"""
