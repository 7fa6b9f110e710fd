"""Streams over links that lose, delay, copy or reorder packets at random; without I/O.

- ``paths`` passes packets over such links in virtual time, for the simulated fabrics.
- ``burst_loss`` and ``delay_spread`` predict losses in bursts, and extra delays.
- ``traversals`` finds the packets that crossed each impaired link.
- ``checks``, ``block_losses`` and ``trace_checks`` compare these packets with the predictions.
- ``tolerances`` gives the allowed differences, and how many packets a check needs.
"""
