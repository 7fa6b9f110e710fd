"""The router simulator: packet-level virtual cut-through with finite buffers and credits, in virtual time.

``simulation.simulate`` runs messages (``traffic/injection.py``, or of a file) over a network with its
parameters (``parameters.py``) in one of two engines and gives the history of every message (``results.py``). The
engines, ``compiled`` and ``reference``, share the network's tables (``network_model.py``) and the run's settings
(``engine_inputs.py``) and nothing else, so that their agreement says something. How an engine works is told in
``compiled``, NAC in ``compiled/nac``, FT-DRB in ``ft_drb``.
"""
