"""Capillary routing: the route that depends on each single link as little as possible.

A split route gives every link l the share r(l) of the flow that it carries. When the link fails,
that share is lost until the route changes. Capillary routing minimises the greatest share, then the
next greatest, and so on to the last (Gabrielyan 2007, section 4.2): sorted in descending order, its
loads are lexicographically minimal among all routes. There is exactly one such route. If capacities
differ, the quantity that is minimised is load over capacity, relative to the network's largest
capacity.

The route is built layer by layer. The first layer is a maximum flow. The links that limit it, which
are full in every maximum flow, are its bottlenecks. They receive their final load and are removed
from the network; the nodes at their ends become sources and sinks of the flow that the bottlenecks
carried (equations 16 to 18). The remaining problem is again a maximum flow, from several sources to
several sinks, with bottlenecks of its own. This ends when nothing is left to be sent. The
bottlenecks of layer l carry 1 / (F1 F2 ... Fl), where Fi is the factor by which layer i could
increase the flow (equation 19).

Two independent implementations find the bottlenecks, and tests compare them:

- ``thesis_loop`` solves linear programmes in floats and runs the bottleneck hunting loop, as the
  thesis describes it (sections 4.2.2 and 4.2.3).
- ``route`` works on the residual graph of a maximum flow. Within a strongly connected component the
  flow can still be rerouted, so the bottlenecks are the full links between components. A layer
  therefore divides its network into components, and no later layer sends anything from one
  component to another. Each component is a problem of its own, a *piece* (``pieces``). The load of
  a piece is found by a series of cuts (Dinkelbach 1967): try the load that the worst cut so far
  requires; if not everything can be sent at that load, the minimum cut is a worse one. All of this
  is exact, in integers. For large networks ``kernel`` does the same in compiled floats, for all
  pieces of a wave at once. Its answer is accepted only if its cuts balance exactly. ``FloatRouter``
  omits this check.

``certificate`` shares no code with either. It decides for given loads whether they are the
capillary route.
"""
