"""The worked examples of the papers: small networks that show one property each.

Source: Gabrielyan 2007, 3.2.2, Figure 27; section 3.3, Figure 28; 3.7.1, Figure 36; section 4.2,
Figures 44 to 46 and 48 to 57.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, Position, check_size, integer
from topologies.network import Network
from topologies.swiss_t1 import processors


def two_switch(**links: Unpack[LinkValues]) -> Network:
    """Return the network of Gabrielyan 2007, Figure 28: two switches with ten hosts.

    t1 to t5 only send and r1 to r5 only receive. Twelve one-way links connect them over s_a and
    s_b. t1 to t3 and r1 to r3 are on s_a, the others on s_b. Each link between the switches
    therefore carries 6 of the 25 transfers, which gives the liquid throughput of the text:
    25/6 = 4.17 links.

    >>> len(two_switch().links)
    12
    """
    draft = Draft(**links)
    draft.switch("s_a", (-1.0, 0.0))
    draft.switch("s_b", (1.0, 0.0))
    draft.cable("s_a", "s_b")
    for k in range(1, 6):
        if k <= 3:
            switch = "s_a"
            x = (k - 2) * 0.7 - 1
        else:
            switch = "s_b"
            x = (k - 4.5) * 0.7 + 1
        draft.host(f"t{k}", (x, 1.0), role="sender")
        draft.host(f"r{k}", (x, -1.0), role="receiver")
        draft.link(f"t{k}", switch)
        draft.link(switch, f"r{k}")
    return draft.network("two-switch")


def three_switch(**links: Unpack[LinkValues]) -> Network:
    """Return the network of Gabrielyan 2007, Figure 36: three switches in a one-way ring.

    The transfers from t1 to r1, t2 to r2 and t3 to r3 take two links of the ring each. The three
    transfers of Figure 37 load the links l_ab, l_bc and l_ca twice each, but any two of them share
    one of these links. Each time frame can therefore hold a single transfer, and no schedule is
    liquid.

    >>> [link.label for link in three_switch().links][:3]
    ['s_a->s_b', 's_b->s_c', 's_c->s_a']
    """
    positions = {"s_a": (-1.0, 0.0), "s_b": (0.0, 1.0), "s_c": (1.0, 0.0)}
    ring = [("s_a", "s_b"), ("s_b", "s_c"), ("s_c", "s_a")]
    draft = _draft_of_switches(positions, ring, Draft(**links))
    # The switch of the sender and the switch of the receiver, for each transfer.
    transfers = [("s_a", "s_c"), ("s_b", "s_a"), ("s_c", "s_b")]
    for k, (sender_switch, receiver_switch) in enumerate(transfers, start=1):
        x, y = positions[sender_switch]
        draft.host(f"t{k}", (x - 0.4, y - 0.7), role="sender")
        draft.link(f"t{k}", sender_switch)
        x, y = positions[receiver_switch]
        draft.host(f"r{k}", (x + 0.4, y - 0.7), role="receiver")
        draft.link(receiver_switch, f"r{k}")
    return draft.network("three-switch")


def shared_fibre(**links: Unpack[LinkValues]) -> Network:
    """Return the case of Gabrielyan 2007, 3.2.2: two lightpaths that share one fibre.

    The lightpaths lead from A to B and from C to D. The whole cloud of Figure 27 cannot be
    reconstructed from the text. This network is the part that the text describes: the routers A
    and C are behind one cross-connect, B and D behind another, and one fibre leads each way
    between the cross-connects.

    >>> len(shared_fibre().switches), len(shared_fibre().links)
    (2, 10)
    """
    positions = {"A": (-1.0, 0.5), "C": (-1.0, -0.5), "B": (2.0, 0.5), "D": (2.0, -0.5)}
    draft = Draft(**links)
    draft.switch("x1", (0.0, 0.0))
    draft.switch("x2", (1.0, 0.0))
    draft.cable("x1", "x2")
    for router, position in positions.items():
        cross_connect = "x1" if router in "AC" else "x2"
        draft.host(router, position)
        draft.cable(router, cross_connect)
    return draft.network("shared-fibre")


def crossbar(*, n: int = 8, **links: Unpack[LinkValues]) -> Network:
    """Return one switch s1 with senders t0, t1, ... and receivers r0, r1, ...

    Every permutation of transfers can be carried at once. As on Swiss-T1, t<k> and r<k> belong to
    one node, and each has a cable of its own.

    Args:
        n: Number of senders, and of receivers.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: ``n`` is less than 1 or too large.

    >>> [node.id for node in crossbar(n=2).nodes]
    ['s1', 't0', 'r0', 't1', 'r1']
    """
    n = integer("crossbar: the number of senders and of receivers", n, 1, 49_999)
    check_size(2 * n + 1, 4 * n)
    draft = Draft(**links)
    draft.switch("s1")
    for k in range(n):
        processors(draft, k, "s1")
    return draft.network(f"crossbar:{n}")


# The links of graphs 1 and 3 of ``capillary_layers``; graphs 2 and 4 are the same upside down.
LAYERED = ("sa sb ac ad bc bd bt ct dt", "sa sb ac ad bc bt cd ct dt")


def capillary_layers(*, graph: int = 1, **links: Unpack[LinkValues]) -> Network:
    """Return the network of Gabrielyan 2007, Figures 44 to 46 and 48 to 53.

    It has nine one-way links from the sender s down to the receiver t. The text of the document
    does not give the ends of the links, but it gives numbers: of the nine links, from top to
    bottom, layers 1, 2 and 3 fix two at 1/2, three at 1/3 and two at 1/4. Four graphs without
    parallel links fit: 1 and 3, and the same two upside down (2 and 4). The text does not tell
    which of them is drawn. In graphs 1 and 2 the last two links carry 1/12 each; in 3 and 4 they
    carry 1/6 and 1/12.

    Args:
        graph: Which of the four graphs.
        **links: Capacity and delay of all links.

    Raises:
        TopologyError: ``graph`` is not a number from 1 to 4.

    >>> [link.label for link in capillary_layers(graph=1).links]
    ['s->a', 's->b', 'a->c', 'a->d', 'b->c', 'b->d', 'b->t', 'c->t', 'd->t']
    """
    graph = integer("capillary-layers: graph", graph, 1, 4)
    ends = [(pair[0], pair[1]) for pair in LAYERED[(graph - 1) // 2].split()]
    positions = {
        "s": (0.0, 1.0),
        "a": (-0.5, 0.5),
        "b": (0.5, 0.5),
        "c": (-0.5, -0.5),
        "d": (0.5, -0.5),
        "t": (0.0, -1.0),
    }
    if graph in (2, 4):
        # Upside down: s and t change places, each link is reversed, and only the inner nodes move.
        mirrored = dict(zip("sabcdt", "tabcds", strict=True))
        ends = [(mirrored[b], mirrored[a]) for a, b in ends]
        for node in "abcd":
            x, y = positions[node]
            positions[node] = (x, -y)
    draft = _draft_of_switches(positions, ends, Draft(**links))
    return draft.network(f"capillary-layers:graph={graph}")


def bottleneck_hunt(**links: Unpack[LinkValues]) -> Network:
    """Return a network whose second layer has all numbers of Gabrielyan 2007, Figures 54 to 57.

    The graph is not the document's own, which cannot be reconstructed from its text: the text names
    five links a to e, but the end of none. In both graphs, once the links of layer 1 are taken out,
    three nodes transmit and two receive, and the flow grows by the factor F = 4/3. Four links are
    full at first. The hunt reduces them to three, and then to the two true bottlenecks.

    b is s1->t1 and e is s2->t1. a, c and d are the parallel links s3->t2, of which two must be full
    and any one may be relieved. These five links have the capacity ``capacity_bps``; the links of s
    and t have 3/4 or 3/2 of it.

    >>> [link.label for link in bottleneck_hunt().links][3:8]
    ['s1->t1', 's2->t1', 's3->t2', 's3->t2#1', 's3->t2#2']
    """
    positions = {
        "s": (0.0, 2.0),
        "s1": (-1.0, 1.0),
        "s2": (0.0, 1.0),
        "s3": (1.0, 1.0),
        "t1": (-0.5, 0.0),
        "t2": (1.0, 0.0),
        "t": (0.0, -1.0),
    }
    ends = [("s", "s1"), ("s", "s2"), ("s", "s3"), ("s1", "t1"), ("s2", "t1")]
    draft = _draft_of_switches(positions, ends, Draft(**links))
    for key in range(3):
        draft.link("s3", "t2", key)
    draft.link("t1", "t")
    draft.link("t2", "t")
    # The capacity of each link, in the order of the draft, over ``capacity_bps``.
    factors = (0.75, 0.75, 1.5, 1, 1, 1, 1, 1, 1.5, 1.5)
    draft.links = [
        replace(link, capacity_bps=factor * link.capacity_bps)
        for link, factor in zip(draft.links, factors, strict=True)
    ]
    return draft.network("bottleneck-hunt")


def _draft_of_switches(
    positions: dict[str, Position], ends: Iterable[tuple[str, str]], draft: Draft
) -> Draft:
    """Add switches and one-way links to a draft, and return it.

    Args:
        positions: The name and the position of each switch.
        ends: The source and the target of each link.
        draft: An empty draft with the values of the links.
    """
    for name, position in positions.items():
        draft.switch(name, position)
    for source, target in ends:
        draft.link(source, target)
    return draft
