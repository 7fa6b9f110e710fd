"""The redundancy that a sender needs on a route while links fail.

The subject is section 4.3 and appendix G of Gabrielyan 2007. Blocks of M source packets are
protected by a code, so that a block can be decoded from any M packets. In normal operation
N = FEC_t packets are sent for each block, which tolerates a loss of t. When link l fails, a share
r(l) of all packets is lost, and the sender answers with N = FEC_r(l).

The redundancy overall requirement, ROR, is the sum of FEC_r(l) / FEC_t - 1 over the links whose
load is at least t (equation 23). ``fec.redundancy.ror`` computes it, and
``fec.redundancy.block_size`` computes the block sizes of equations 24 and 25. A link of load 1
makes the ROR infinite, because no code can repair its failure. Spreading the flow lowers the ROR,
since FEC_r grows faster than r.

- ``coding``: the parameters on which the ROR depends, besides the route.
- ``route_ror``: the figures of one route.
- ``least_fec``: the route of minimum ROR, with a proved bound, to compare other routes with.
- ``failures``: how often failures of independent links overlap (equations 35 to 45), and the loss
  while two links are down (the function loss(l1, l2) of equation 51, which the thesis leaves open).
"""
