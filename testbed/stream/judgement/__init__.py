"""The judgement of a stream: from packet logs to a verdict; without I/O.

Theory of operation. Both ends log every packet.

1. ``packet_logs`` turns the logs into the outcome of each block.
2. ``testbed.stream.facts`` has what follows from plan and logs together: the epochs, the predicted
   fate of each packet, the N that each epoch requires, and when the sender had answered.
3. ``fault_figures`` and ``run_figures`` are sums over packets, blocks and epochs. A fault that
   overlaps no other one is an epoch. ``analysis`` has the facts with these figures.
4. ``checks`` compares every figure with its prediction. ``validity`` gives the reasons why a run is
   invalid, with ``end_counters`` and ``timing_errors``. ``verdict`` combines them.
5. ``streams`` builds the documents and records, with ``overview``, ``path_results`` and
   ``packet_totals``. ``closing_lines`` has the lines that a command prints.

``failure_costs`` and ``outcome`` give figures for experiments.
"""
