"""Capillary routing: one unit of flow spread over all of a network, so that no single link matters more than it must.

Theory of operation. A split route gives every link l the share r(l) of the flow that it carries; when the link fails,
that share is lost until the route changes. Capillary routing makes the greatest share as small as it can be, then the
next greatest, and so on to the last (Gabrielyan 2007, 4.2): of all routes its loads, sorted from the greatest down, are
lexicographically least. There is exactly one such route. With links of unequal capacity it is the load over the
capacity, relative to the network's largest one, that is minimised.

It is built in layers. The first is a maximum flow: what it cannot go beyond are its bottlenecks, the links that are
full in every maximum flow. They get their final load and leave the network; the nodes at their ends become sources and
sinks of what the bottlenecks bring and take (eq. 16 to 18). The rest is again a maximum flow, from several sources to
several sinks, with bottlenecks of its own, until nothing is left to be sent. The bottlenecks of layer l carry 1 / (F1
F2 ... Fl), where Fi is the factor by which layer i could grow the flow (eq. 19).

There are two ways to find the bottlenecks, and each judges the other:

- ``thesis_loop``: linear programmes in floats and the bottleneck hunting loop, as the thesis has it (4.2.2 and 4.2.3).
- ``route``: the bottlenecks of a maximum flow are the full links between the strongly
  connected components of its residual graph, since within a component flow can still be led around. So a layer cuts its
  network into components, and no later layer sends anything from one to another: each is a problem of its own, a
  *piece* (``pieces``). The load of a piece is found by cuts (Dinkelbach 1967): try the load that the worst cut so far
  asks for; what cannot be sent at it shows a worse cut. All is exact, in integers; for large networks ``kernel`` does
  the same in compiled floats, for all pieces of a wave at once, and its answer is taken over only where its cuts
  balance exactly. ``FloatRouter`` keeps to floats.

``certificate`` shares no code with either: it takes loads of any origin and says whether they are the capillary route.
"""
