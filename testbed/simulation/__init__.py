"""Packets through routers with finite buffers as a workload: what is asked of the router simulator, in virtual time
only."""
