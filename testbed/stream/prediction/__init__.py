"""What theory says a stream will measure; pure, and shared by the sender's policy and the verdict.

Theory of operation. A route is split by labels, so that what a set of broken links loses is exact: the union of the
labels whose paths cross one of them (``active_faults``). Time falls into epochs between one change and the next; in
each of them loss, lost labels and the block size that answers them are known. From there

- ``block_size_policy`` gives N for a loss: FEC_p (Gabrielyan 2007, eq. 25) where losses are random, else the worst
  window of the lost labels;
- ``required_size`` gives the N that answers an epoch, and the range of a sender that estimates;
- ``loss_by_path`` numbers paths, of which the two ends count packets;
- ``path_delays`` gives what propagation adds to an answer;
- ``stream_theory`` has all of this for one plan, each computed once;
- ``expected_redundancy`` gives the mean over random failures before any happens (Gabrielyan 2007, appendix G, eq. 45).
"""
