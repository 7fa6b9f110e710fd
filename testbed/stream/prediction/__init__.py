"""The theory of streams: what follows from a plan before anything is measured; without I/O.

The sender chooses block sizes by it, and the verdict compares measurements with it.

Theory of operation. A route is split by labels, so the losses of a set of broken links are exact:
they are the union of the labels whose paths cross one of the links (``active_faults``). Time is
divided into epochs between one change and the next. In each of them the loss, the lost labels and
the required block size are known.

- ``block_size_policy`` gives N for a loss: FEC_p (Gabrielyan 2007, eq. 25) if losses are random,
  else the worst window of the lost labels.
- ``required_size`` gives the N that an epoch requires, and the accepted range if the sender
  estimates.
- ``loss_by_path`` numbers paths; both ends count packets by these numbers.
- ``path_delays`` gives propagation delays, and the time allowed for the sender's reaction.
- ``stream_theory`` has all of this for one plan, each computed once.
- ``expected_redundancy`` gives the mean over random failures before any happens (Gabrielyan 2007,
  appendix G, eq. 45).
"""
