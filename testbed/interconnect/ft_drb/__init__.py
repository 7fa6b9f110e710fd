"""FT-DRB, fault-tolerant distributed routing balancing (Zarza 2011, chapter 3).

These are the decisions of the compiled engine.

Theory of operation
-------------------
FT-DRB delivers messages while links fail. Only the sources that met a failure store it; there is no
other table of failures.

*Paths.* A multistep path (equation 3.1) leads from a source over at most two intermediate routers
to a destination. Each of its segments is the network's own minimal routing, and its length is the
sum of their lengths (equation 3.2). A packet carries both intermediates and a header id, which says
which of them it is bound for; that router increments the id. A path without intermediates is the
minimal path. The metapath of a pair is its set of alternative multistep paths (equation 3.4).

*Monitoring and notification* (3.1). A router that finds the next link of a packet dead sends a
failure notification (here: the cable) to the packet's source and gives the packet an escape path. A
packet that arrives at its destination without an escape is answered by a latency ACK, which carries
its path and its latency (equation 3.3). ACKs have their own buffers and take precedence. They
escape like data, and are never acknowledged.

*Escape paths* (3.2; ``escape_steps.py``). The router chooses among multistep paths over its
supernode: first its neighbours, then other routers. It takes the shortest path that does not return
over its dead links. ``escape_path`` describes packets that escape repeatedly.

*Failures at the source* (3.4; ``source_steps.py``). The link faults list counts consecutive
notifications by cable (``record_failure``, Figure 3.10). The fifth makes the failure permanent. A
latency ACK over any path with that cable clears it (``record_latency``). While the minimal path of
a message has a permanent failure, the message takes the metapath. One message in a hundred, the
probe, tries the minimal path nevertheless (``select_path``, Figure 3.11).

*The metapath* (3.3). It is configured again when the permanent failures of the source have changed:
it then contains the shortest paths that avoid every listed cable (``configure_metapath``), one of
which is in use at first. If L(P) is the latency of path P, the latency of the metapath is 1 / sum 1
/ L(P) over the paths in use (equation 3.5). After each latency ACK, one more path is used if this
latency is above Thl + Tol, and one less if it is below Thl - Tol (``size_metapath``, Algorithm
3.3). A message draws a path with a probability in proportion to its bandwidth 1 / L(P)
(``sample_path``, equations 3.6 to 3.8, Algorithm 3.4). Equation 3.8 as printed is the cumulative
distribution, with an error in its index.

``testbed.interconnect.parameters.FtDrbOptions`` has what the document leaves open, and the
alternatives of section 3.6.

Implementation
--------------
``source_steps.py`` and ``escape_steps.py`` are functions of flat arrays (``source_state.py``,
``static_paths.Paths``), which numba compiles. ``testbed/interconnect/compiled/ft_drb_hooks.py``
applies their decisions to packets. The reference engine does not use them:
``tests/oracles/interconnect/ft_drb_source.py`` makes the decisions with its own objects, and both
must agree packet by packet.

Random decisions are part of the definition. A draw is ``mixed`` of numbers that identify the
decision (message, router, path), not the state of a generator. So both engines draw the same
values, however they are written.
"""
