"""Software routers with credits and finite queues, one process each, that exchange real packets; with NAC or without.

``router`` and ``nac`` decide (no sockets, no clock), ``emulated`` runs them over veth cables, ``judgement`` says what
it shows.
"""
