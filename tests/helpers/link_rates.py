"""Packets per second of several streams on each link, in steady state and while links are down.

Counters of the links should show these rates.
"""

from collections.abc import Collection, Mapping, Sequence

from testbed.model.label_split import LABELS
from testbed.stream.plan import StreamPlan
from topologies.network import LinkId


def link_rates(
    plans: Sequence[StreamPlan], block_sizes: Sequence[int], down: Collection[LinkId] = ()
) -> Mapping[LinkId, float]:
    """Coded packets a second that enter each link, loss reports left out; every link of the network is listed.

    ``block_sizes``: N of each stream meanwhile. A packet whose path leads over a link that is ``down`` is counted up to
    there.
    """
    network = plans[0].network
    dead = {network.link_index[link] for link in down}
    rates = [0.0] * len(network.links)
    for plan, size in zip(plans, block_sizes, strict=True):
        wire_pps = plan.stream.rate_pps * size / plan.stream.source_packets
        for path in plan.forward.paths:
            for link in path.links:
                if link in dead:
                    break
                rates[link] += wire_pps * (path.stop - path.start) / LABELS
    return {link.id: rate for link, rate in zip(network.links, rates, strict=True)}
