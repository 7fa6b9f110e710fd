"""The theory of streams: what follows from a plan before anything is measured; pure.

The sender uses it to choose block sizes, and the verdict to compare.

Theory of operation. A route is split by labels, so the losses of a set of broken links are exact: they are
the union of the labels whose paths cross one of the links (``active_faults``). Time is divided into epochs
between one change and the next. In each of them the loss, the lost labels and the block size that answers
them are known.

- ``block_size_policy`` gives N for a loss: FEC_p (Gabrielyan 2007, eq. 25) if losses are random, else the
  worst window of the lost labels.
- ``required_size`` gives the N that answers an epoch, and the range of a sender that estimates.
- ``loss_by_path`` numbers paths; both ends count packets by these numbers.
- ``path_delays`` gives what propagation adds to the time of an answer.
- ``stream_theory`` has all of this for one plan, each computed once.
- ``expected_redundancy`` gives the mean over random failures before any happens (Gabrielyan 2007,
  appendix G, eq. 45).
"""
