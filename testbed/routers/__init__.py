"""Software routers with credits and finite queues, which exchange real packets.

They run with or without NAC.
Each router is a process. ``router`` and ``nac`` decide what happens (without sockets or clocks),
``emulated`` runs them over veth cables, and ``measurements`` holds what they report.
"""
