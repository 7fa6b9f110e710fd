"""The papers' worked examples: two switches with ten end nodes, and the crossbar.

Source: Gabrielyan 2007, section 3.3, Figure 28.
"""

from __future__ import annotations

from topologies.assembly import refuse_absurd, two_way, whole
from topologies.network import DEFAULT_CAPACITY_BPS, Link, Network, Node


def two_switch(*, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """Gabrielyan 2007, Figure 28: t1..t5 only send, r1..r5 only receive, and twelve one-way links join them over s_a and s_b.

    t1..t3 and r1..r3 are on s_a, the others on s_b, so that each link between the switches carries 6 of the 25
    transfers: the liquid throughput of 25/6 = 4.17 links that the text gives.

    >>> len(two_switch().links)
    12
    """
    nodes = [
        Node(id="s_a", kind="switch", position=(-1.0, 0.0)),
        Node(id="s_b", kind="switch", position=(1.0, 0.0)),
    ]
    links = list(two_way("s_a", "s_b", capacity_bps=capacity_bps, delay_s=delay_s))
    for k in range(1, 6):
        switch = "s_a" if k <= 3 else "s_b"
        x = (k - 2) * 0.7 - 1 if k <= 3 else (k - 4.5) * 0.7 + 1
        nodes.append(Node(id=f"t{k}", kind="host", position=(x, 1.0), attributes={"role": "sender"}))
        nodes.append(Node(id=f"r{k}", kind="host", position=(x, -1.0), attributes={"role": "receiver"}))
        links.append(Link(source=f"t{k}", target=switch, capacity_bps=capacity_bps, delay_s=delay_s))
        links.append(Link(source=switch, target=f"r{k}", capacity_bps=capacity_bps, delay_s=delay_s))
    return Network(
        name="two-switch",
        nodes=tuple(nodes),
        links=tuple(links),
        attributes={"family": "two-switch", "routing": "shortest-path"},
    )


def crossbar(*, ports: int, capacity_bps: float = DEFAULT_CAPACITY_BPS, delay_s: float = 0.0) -> Network:
    """One switch s1 that joins the senders t0, t1, ... to the receivers r0, r1, ...: every permutation fits at once.

    As on Swiss-T1, t<k> and r<k> belong to one node and each has a cable of its own. TopologyError for fewer than one.

    >>> [node.id for node in crossbar(ports=2).nodes]
    ['s1', 't0', 'r0', 't1', 'r1']
    """
    whole("crossbar: the number of senders and of receivers", ports, 1, 49_999)
    refuse_absurd(2 * ports + 1, 4 * ports)
    nodes = [Node(id="s1", kind="switch")]
    links: list[Link] = []
    for k in range(ports):
        nodes.append(Node(id=f"t{k}", kind="host", attributes={"role": "sender", "node": k}))
        nodes.append(Node(id=f"r{k}", kind="host", attributes={"role": "receiver", "node": k}))
        links += two_way(f"t{k}", "s1", capacity_bps=capacity_bps, delay_s=delay_s)
        links += two_way("s1", f"r{k}", capacity_bps=capacity_bps, delay_s=delay_s)
    return Network(
        name=f"crossbar:{ports}",
        nodes=tuple(nodes),
        links=tuple(links),
        attributes={"family": "crossbar", "routing": "shortest-path"},
    )
