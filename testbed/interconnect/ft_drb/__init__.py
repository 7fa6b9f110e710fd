"""FT-DRB, fault-tolerant distributed routing balancing (Zarza 2011, chapter 3), as the compiled engine decides it.

Theory of operation
-------------------
FT-DRB keeps delivering while links fail, without a table of the failures anywhere but at the sources that met them.

*Paths.* A multistep path (equation 3.1) leads from a source over at most two intermediate routers to a destination;
each of its segments is the network's own minimal routing, its length the sum of theirs (equation 3.2). A packet carries
both intermediates and a header id, which says which of them it is bound for; at that router the id goes on by one. No
intermediates: the minimal path. The metapath of a pair is its set of alternative multistep paths (equation 3.4).

*Monitoring and notification* (3.1). A router that finds the next link of a packet dead sends a failure notification
(here: the cable) to the packet's source and gives the packet an escape path. A packet that comes to its destination
without an escape is answered by a latency ACK: its path, and how long it took (equation 3.3). ACKs have buffers of
their own and go first; they escape like data, and are never acknowledged.

*Escape paths* (3.2; ``escape_steps.py``). The router chooses among multistep paths over its supernode: neighbours
first, then others; the shortest that does not come back over its dead links. See ``escape_path`` for packets that
escape again.

*Failures at the source* (3.4; ``source_steps.py``). The link faults list counts notifications in a row by cable
(``record_failure``, Figure 3.10). The fifth makes the failure permanent; a latency ACK over any path with that cable
clears it (``record_latency``). As long as the minimal path of a message has a permanent failure, the message takes the
metapath; one in a hundred, the probe, tries the minimal path all the same (``select_path``, Figure 3.11).

*The metapath* (3.3). It is configured again when the permanent failures of the source have changed since: the shortest
paths that avoid every listed cable (``configure_metapath``), one of them in use at first. With L(P) the latency of path
P, that of the metapath is 1 / sum 1 / L(P) over the paths in use (equation 3.5); after each latency ACK one path more
is used where it is above Thl + Tol, one less where it is below Thl - Tol (``size_metapath``, Algorithm 3.3). A message
draws a path with probability bandwidth over the sum of bandwidths, bandwidth being 1 / L(P) (``sample_path``, equations
3.6 to 3.8, Algorithm 3.4; equation 3.8 as printed is the cumulative distribution, with a slip in its index).

What the document leaves open, and the alternatives of section 3.6, are
``testbed.interconnect.parameters.FtDrbOptions``.

How it is written
----------------- ``source_steps.py`` and ``escape_steps.py`` are functions of flat arrays (``source_state.py``,
``static_paths.Paths``), which numba compiles; ``testbed/interconnect/compiled/ft_drb_hooks.py`` carries their decisions
out with packets. The reference engine uses none of it: ``tests/oracles/interconnect/ft_drb_source.py`` decides by
objects of its own, and both must agree packet by packet. Draws are part of the definition: a draw is ``mixed`` of
numbers that name what is decided (message, router, path), never a generator's state, so that two engines draw alike
however they are written.
"""
