"""FT-DRB tells switches alone: where a host would have to choose a way, the plan is refused with what to take."""

from __future__ import annotations

import pytest

from testbed.errors import InputError
from testbed.metapath.plan import MetapathPlan
from topologies.network import Link, Network, Node


def network_of(cables: str, forwarding: str = "") -> Network:
    ends = [tuple(one) for one in cables.split()]
    nodes = tuple(
        Node(
            id=n,
            kind="switch" if n in "xy" else "host",
            attributes={"forwarding": True} if n in forwarding else {},
        )
        for n in dict.fromkeys("".join(cables.split()))
    )
    links = tuple(Link(source=s, target=t) for a, b in ends for s, t in ((a, b), (b, a)))
    return Network(name="small", nodes=nodes, links=links)


@pytest.mark.parametrize(
    ("network", "said"),
    [
        (network_of("ax ay bx xy"), "host 'a' has 2 cables"),
        (network_of("ax rx ry by", "r"), "host 'r' forwards"),
    ],
)
def test_a_host_that_would_have_to_choose_is_refused(network: Network, said: str) -> None:
    with pytest.raises(
        InputError, match=f"{said}, and it tells switches alone; give --routing capillary"
    ):
        MetapathPlan(network=network, source="a", sink="b", faults=(), duration_s=2.0)
