"""Streams over links that lose, delay, copy or reorder packets at random; pure.

- ``paths`` passes packets over such links in virtual time, for the simulated fabrics.
- ``burst_loss`` and ``delay_spread`` predict losses in bursts, and how long packets wait.
- ``traversals`` finds the packets that crossed each impaired link.
- ``checks``, ``block_losses`` and ``trace_checks`` compare these packets with the predictions.
- ``tolerances`` says how far the two may differ, and how many packets that takes.
"""
