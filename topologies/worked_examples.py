"""The papers' worked examples: two and three switches, a shared fibre, the crossbar, small networks of capillary layers
and of the hunt.

Source: Gabrielyan 2007, 3.2.2, Figure 27; section 3.3, Figure 28; 3.7.1, Figure 36; section 4.2, Figures 44 to 46 and
48 to 57.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Unpack

from topologies.builder_values import Draft, LinkValues, Position, check_size, integer
from topologies.network import Network
from topologies.swiss_t1 import processors


def two_switch(**links: Unpack[LinkValues]) -> Network:
    """Gabrielyan 2007, Figure 28: t1..t5 only send, r1..r5 only receive, and twelve one-way links join them over s_a
    and s_b.

    t1..t3 and r1..r3 are on s_a, the others on s_b, so that each link between the switches carries 6 of the 25
    transfers: the liquid throughput of 25/6 = 4.17 links that the text gives.

    >>> len(two_switch().links)
    12
    """
    draft = Draft(**links)
    draft.switch("s_a", (-1.0, 0.0))
    draft.switch("s_b", (1.0, 0.0))
    draft.cable("s_a", "s_b")
    for k in range(1, 6):
        switch = "s_a" if k <= 3 else "s_b"
        x = (k - 2) * 0.7 - 1 if k <= 3 else (k - 4.5) * 0.7 + 1
        draft.host(f"t{k}", (x, 1.0), role="sender")
        draft.host(f"r{k}", (x, -1.0), role="receiver")
        draft.link(f"t{k}", switch)
        draft.link(switch, f"r{k}")
    return draft.network("two-switch")


def three_switch(**links: Unpack[LinkValues]) -> Network:
    """Gabrielyan 2007, Figure 36: three switches in a one-way ring, over which t1 to r1, t2 to r2 and t3 to r3 take two
    links each.

    The three transfers of Figure 37 load l_ab, l_bc and l_ca twice, but any two of them share one of these links: each
    frame holds a single transfer, and no schedule is liquid.

    >>> [link.label for link in three_switch().links][:3]
    ['s_a->s_b', 's_b->s_c', 's_c->s_a']
    """
    places = {"s_a": (-1.0, 0.0), "s_b": (0.0, 1.0), "s_c": (1.0, 0.0)}
    draft = _of_switches(places, [("s_a", "s_b"), ("s_b", "s_c"), ("s_c", "s_a")], Draft(**links))
    for k, (sender, receiver) in enumerate(
        (("s_a", "s_c"), ("s_b", "s_a"), ("s_c", "s_b")), start=1
    ):
        for name, switch, role, side in (
            (f"t{k}", sender, "sender", -0.4),
            (f"r{k}", receiver, "receiver", 0.4),
        ):
            x, y = places[switch]
            draft.host(name, (x + side, y - 0.7), role=role)
        draft.link(f"t{k}", sender)
        draft.link(receiver, f"r{k}")
    return draft.network("three-switch")


def shared_fibre(**links: Unpack[LinkValues]) -> Network:
    """The case that Gabrielyan 2007, 3.2.2, makes of Figure 27: the lightpaths from A to B and from C to D meet on one
    fibre.

    The figure's whole cloud cannot be distinguished from the text; this is what the text says of it: routers A and C
    behind one cross-connect, B and D behind another, one fibre each way between these.

    >>> len(shared_fibre().switches), len(shared_fibre().links)
    (2, 10)
    """
    places = {"A": (-1.0, 0.5), "C": (-1.0, -0.5), "B": (2.0, 0.5), "D": (2.0, -0.5)}
    draft = Draft(**links)
    draft.switch("x1", (0.0, 0.0))
    draft.switch("x2", (1.0, 0.0))
    draft.cable("x1", "x2")
    for router, place in places.items():
        draft.host(router, place)
        draft.cable(router, "x1" if router in "AC" else "x2")
    return draft.network("shared-fibre")


def crossbar(*, n: int = 8, **links: Unpack[LinkValues]) -> Network:
    """One switch s1 that joins the senders t0, t1, ... to the receivers r0, r1, ...: every permutation fits at once.

    As on Swiss-T1, t<k> and r<k> belong to one node and each has a cable of its own. TopologyError for fewer than one.

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


LAYERED = ("sa sb ac ad bc bd bt ct dt", "sa sb ac ad bc bt cd ct dt")
"""Links of two of the four graphs; the other two are these upside down."""


def capillary_layers(*, graph: int = 1, **links: Unpack[LinkValues]) -> Network:
    """The network of Gabrielyan 2007, Figures 44 to 46 and 48 to 53: nine one-way links from the sender s down to the
    receiver t.

    The document's text has no ends of links, but numbers: nine links from top to bottom, of which layers 1, 2 and 3 fix
    two at 1/2, three at 1/3 and two at 1/4. Four graphs without parallel links fit, 1 and 3 and these upside down (2
    and 4); which of them is drawn cannot be distinguished from the text. In 1 and 2 the last two links carry 1/12 each,
    in 3 and 4 they carry 1/6 and 1/12. TopologyError for another ``graph``.

    >>> [link.label for link in capillary_layers(graph=1).links]
    ['s->a', 's->b', 'a->c', 'a->d', 'b->c', 'b->d', 'b->t', 'c->t', 'd->t']
    """
    graph = integer("capillary-layers: graph", graph, 1, 4)
    ends = [(pair[0], pair[1]) for pair in LAYERED[(graph - 1) // 2].split()]
    places = {
        "s": (0.0, 1.0),
        "a": (-0.5, 0.5),
        "b": (0.5, 0.5),
        "c": (-0.5, -0.5),
        "d": (0.5, -0.5),
        "t": (0.0, -1.0),
    }
    if graph in (2, 4):
        other = dict(zip("sabcdt", "tabcds", strict=True))
        ends = [(other[b], other[a]) for a, b in ends]
        places = {node: (x, y if node in "st" else -y) for node, (x, y) in places.items()}
    return _of_switches(places, ends, Draft(**links)).network(f"capillary-layers:graph={graph}")


def bottleneck_hunt(**links: Unpack[LinkValues]) -> Network:
    """A network of ours whose second layer has every number of Gabrielyan 2007, Figures 54 to 57.

    The document's own graph cannot be distinguished from its text, which names five links a to e and the end of none.
    Here as there, three nodes transmit and two receive once the links of layer 1 are taken out, the flow grows by F =
    4/3, four links are full at first, and the hunt takes them to three and to the two true bottlenecks. b is s1->t1, e
    is s2->t1; a, c and d are the parallel links s3->t2, of which two must be full and any may be relieved. They have
    ``capacity_bps``; the links of s and t have 3/4 or 3/2 of it.

    >>> [link.label for link in bottleneck_hunt().links][3:8]
    ['s1->t1', 's2->t1', 's3->t2', 's3->t2#1', 's3->t2#2']
    """
    places = {"s": (0.0, 2.0), "s1": (-1.0, 1.0), "s2": (0.0, 1.0), "s3": (1.0, 1.0)}
    places |= {"t1": (-0.5, 0.0), "t2": (1.0, 0.0), "t": (0.0, -1.0)}
    draft = _of_switches(
        places, [("s", "s1"), ("s", "s2"), ("s", "s3"), ("s1", "t1"), ("s2", "t1")], Draft(**links)
    )
    for key in range(3):
        draft.link("s3", "t2", key)
    draft.link("t1", "t")
    draft.link("t2", "t")
    shares = (0.75, 0.75, 1.5, 1, 1, 1, 1, 1, 1.5, 1.5)
    draft.links = [
        replace(at, capacity_bps=share * at.capacity_bps)
        for at, share in zip(draft.links, shares, strict=True)
    ]
    return draft.network("bottleneck-hunt")


def _of_switches(
    places: dict[str, Position], ends: Iterable[tuple[str, str]], draft: Draft
) -> Draft:
    """Switches at their places, and one-way links between them."""
    for name, place in places.items():
        draft.switch(name, place)
    for source, target in ends:
        draft.link(source, target)
    return draft
