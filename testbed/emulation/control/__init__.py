"""The OpenFlow controller's process, the rules every network needs, and injected faults."""
