"""What redundancy a route asks of its sender while links fail: the subject of Gabrielyan 2007, 4.3 and appendix G.

Theory of operation. Blocks of M source packets are protected by a code, so that a block decodes from any M packets. At
rest N = FEC_t packets are sent for each block, which survives a loss of t. When link l fails, a share r(l) of all
packets is lost; the sender answers with N = FEC_r(l). The redundancy overall requirement, ROR, is the sum of FEC_r(l) /
FEC_t - 1 over the links whose load reaches t (eq. 23; ``fec.redundancy.ror`` computes it, ``fec.redundancy.block_size``
the block sizes of eq. 24 and 25). A link of load 1 makes it infinite: nothing answers its failure. Spreading the flow
lowers it, since FEC_r grows faster than r.

- ``coding``: what the figures depend on next to the route; ``ror_study``: the figures of one route.
- ``least_fec``: the route of least ROR itself, which every other route is held against, with a proved bound.
- ``failures``: how often failures of independent links overlap (eq. 35 to 45), and what is lost when two do (the
  function loss(l1, l2) of eq. 51 that the thesis leaves open).
"""
