"""Model checking of NAC on networks of a few routers, in every order of events.

It finds which states can be reached, and whether all of them can drain. ``small_networks.py`` has
the networks, ``transition_system.py`` the rules and the layout of a state, ``compiled/`` the steps
that may follow a state, ``symmetry.py`` the symmetries of a network, and ``exploration.py`` the
search.
"""
