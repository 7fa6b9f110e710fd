"""Options that describe themselves: a field of a frozen dataclass says its unit, bounds, choices, help and when it has
a meaning.

``option`` declares them, ``kinds`` has the kinds of numbers, ``planner`` makes a typed function of the library of an
options class. No command line is known here: ``testbed.commands.arguments`` turns the same fields into one.
"""
