"""All pairs of a network at once: demand matrices, their routings, and the redundancy they need.

A *demand matrix* says how many bits per second each pair of nodes sends. A routing splits the flow
of every pair over the links; the load of a link is the sum over the pairs. Three figures describe a
routing:

- the *maximum link utilisation* (MLU): load over capacity of the fullest link. All demands can grow
  by its inverse at the same time.
- the *max-min-fair throughput* (``matrix``): the rates of the pairs if all grow together until a
  link on their paths is full.
- the *total ROR* (``redundancy``): the sum over the pairs of Gabrielyan 2007, equation 23. Coding
  is end to end, for each pair. Coding at intermediate nodes, over packets of several pairs, is not
  considered.

The methods differ in what they know. Capillary routing spreads each pair without regard to the
others (``per_pair``). The multicommodity optimum (``optimum``) knows all demands and has the
smallest possible MLU; ``fair`` continues with the next fullest link, and so on, as capillary
routing does for one pair. Semi-oblivious routing (Kumar et al. 2018) chooses paths without knowing
the demands, and sets only the rates by them. The paths are the k shortest ones, or those of
Raecke's trees (``path_sets``); the rates are the result of a linear programme (``best_rates``). Of
several routings with the same MLU, ``least_ror_demands`` finds the one with the least redundancy.

``checker`` shares no code with any of these. It recomputes loads and flow conservation, and a lower
bound of the MLU from prices of links.
"""
