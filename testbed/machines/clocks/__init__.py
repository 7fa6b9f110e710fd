"""Conversion of another machine's time stamps to our clock, with bounds on the error.

Each exchange of messages gives four time stamps. All modules but ``adapters`` are pure: they take
stamps as numbers and read no clock.
"""
