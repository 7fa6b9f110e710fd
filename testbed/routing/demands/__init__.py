"""All pairs of a network at once: a demand matrix, the ways to route it, what they load and what redundancy they ask
for.

Theory of operation. A *demand matrix* says how many bits a second each pair of nodes sends. A routing splits every
pair's flow over the links; the load of a link is the sum over the pairs. Three figures rate a routing:

- the *greatest link utilisation* (MLU): the load over the capacity of the fullest link. All demands can grow by its
  inverse at once.
- the *max-min-fair throughput* (``matrix``): what the pairs get when their rates grow together until a link of
  theirs is full.
- the *total ROR* (``redundancy``): the sum over the pairs of Gabrielyan 2007, eq. 23. Coding is end to end, pair by
  pair; coding at intermediate nodes, over packets of several pairs, is left out.

Who pays for what: capillary routing spreads each pair by itself and knows no other pair (``per_pair``). The
multicommodity optimum (``optimum``) knows all demands and has the least MLU there is; ``fair`` goes on to the next
fullest link, and so on, as capillary routing does for one pair. Semi-oblivious routing (Kumar et al. 2018) fixes paths
without knowing the demands and sets only the rates by them: the paths are the k shortest or those of Raecke's trees
(``path_sets``), the rates a linear programme's (``best_rates``). Of several routings with the
same MLU, ``least_ror_demands`` finds the one that needs the least redundancy.

``checker`` shares no code with any of it: it recomputes loads and flow conservation, and a lower bound of the MLU from
prices of links.
"""
