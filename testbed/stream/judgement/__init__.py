"""From packet logs to a verdict; pure.

Theory of operation. Both ends log every packet. ``packet_logs`` turns the logs into the fate of each block.
``analysis`` takes each fault apart into a transient, until the sender has answered, and a steady part, from which loss
and block size are read; figures of the transient are reported next to it. Where faults overlap or nodes move, epochs
and single packets are judged in place of faults (``epoch_verdict``, with the figures of
``testbed.stream.prediction.epoch_analysis``). ``verdict`` holds every figure against its prediction with a tolerance
and the reason for it; a run in which the machine could not keep up is invalid, never passed. ``records`` writes down
what was found, for the result store and for ``--json``.
"""
