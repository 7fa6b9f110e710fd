"""The workload "simulation": packets through routers with finite buffers, in virtual time only.

The router simulator itself is in ``testbed.interconnect``.
"""
