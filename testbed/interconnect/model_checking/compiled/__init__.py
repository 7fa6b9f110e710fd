"""The exploration of NAC in compiled code: millions of states where the readable one of the tests
(``tests/oracles/exhaustive``), which it is held against, reaches a million.

``model_tables.py`` has the network and the rules as arrays, ``state_access.py`` what a step reads and changes,
``successors.py`` what may come next, ``visited.py`` which states are known; ``exploration.py`` puts them together.
"""
