"""NAC on networks of a few routers, in every order of events: which states can be reached, and whether all of them can
drain.

``small_networks.py`` says what is explored, ``nac_steps.py`` the rules and the states, ``compiled/`` what may happen
next, ``exploration.py`` looks at all of it.
"""
