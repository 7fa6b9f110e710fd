"""From packet logs to a verdict; pure.

Theory of operation. Both ends log every packet. ``packet_logs`` turns the logs into the outcome of each
block. ``testbed.stream.facts`` has what the plan and the logs say together: epochs, what was to become
of each packet, which N answers each epoch, and when the sender had answered. ``fault_figures`` and
``run_figures`` are sums over packets, blocks and epochs; a fault that overlaps no other one is an epoch.
``analysis`` has the facts with these figures. ``checks`` compares every figure with its prediction,
``validity`` says why a run says nothing, and ``verdict`` combines both. ``streams`` writes down what was
found, for the result store and for ``--json``.
"""
