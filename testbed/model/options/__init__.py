"""Options: fields of a frozen dataclass with unit, bounds, choices, help and conditions.

``option`` declares them, ``kinds`` defines the kinds of numbers, and ``planner`` makes a function
of the library from an options class. No module here knows the command line:
``testbed.commands.arguments`` converts the same fields to its arguments.
"""
