"""The exploration of NAC in compiled code.

It explores millions of states. The readable exploration of the tests
(``tests/oracles/exhaustive``), which it is compared with, reaches a million.

``model_tables.py`` has the network and the rules as arrays, ``state_access.py`` what a step reads
and changes, ``successors.py`` the steps that may follow a state, and ``visited.py`` the known
states. ``exploration.py`` combines them.
"""
