"""States that differ only by a turn or a mirror image of the network are one: the least of them stands for all."""

import itertools
from dataclasses import dataclass

from testbed.interconnect.model_checking.small_networks import SmallNetwork
from testbed.interconnect.model_checking.transition_system import HERE, NacTransitionSystem

Symmetry = tuple[tuple[int, ...], list[int], list[int]]
"""Of routers, links and cables: which each becomes."""
MOST_ROUTERS = 6
"""Their orders are tried one by one."""


def state_images(model: NacTransitionSystem) -> "list[Image]":
    """From the orders of the routers under which links, flows, cables and tables stay what they are; the first moves
    nothing."""
    return [_image(model, symmetry) for symmetry in symmetries(model.network)]


def symmetries(network: SmallNetwork) -> list[Symmetry]:
    """Orders of the routers (router r becomes ``order[r]``) that change nothing, with those of links and cables; the
    first is the one that moves none."""
    alone = tuple(range(network.routers))
    orders = [alone] if network.routers > MOST_ROUTERS else itertools.permutations(alone)
    return [symmetry for order in orders if (symmetry := _symmetry(network, order)) is not None]


def _symmetry(network: SmallNetwork, order: tuple[int, ...]) -> Symmetry | None:
    link_at = {ends: i for i, ends in enumerate(network.links)}
    cable_at = {frozenset(cable): i for i, cable in enumerate(network.cables)}
    try:
        links = [link_at[order[a], order[b]] for a, b in network.links]
        cables = [cable_at[frozenset(links[i] for i in cable)] for cable in network.cables]
    except KeyError:
        return None
    keeps = {(order[a], order[b]) for a, b in network.flows} == set(network.flows) and all(
        network.tables[_mask(down, cables)][order[router]][order[goal]] == links[link]
        for router, goal in network.places()
        for down, table in network.tables.items()
        if (link := table[router][goal]) >= 0
    )
    return (order, links, cables) if keeps and len(link_at) == len(links) else None


def _mask(down: int, cables: list[int]) -> int:
    return sum(1 << new for old, new in enumerate(cables) if down >> old & 1)


@dataclass(frozen=True, kw_only=True)
class Image:
    """What a state becomes with the routers in another order: from which ``places`` its bytes come, and what each value
    becomes.

    ``packets``, ``outs``, ``masks``: by value, for buffers, for what heads ask for, for the failed cables; ``cycles``:
    by number.
    """

    places: tuple[int, ...]
    packets: bytes
    outs: bytes
    masks: bytes
    cycles: tuple[int, ...]


def _image(model: NacTransitionSystem, symmetry: Symmetry) -> Image:
    """A state to what it is with the routers in another order."""
    order, links, cables = symmetry
    places = [0] * model.signals_at
    for old, new in enumerate(links):
        for first, slots in (
            (0, model.o), (model.inputs_at, model.a), (model.avoidance_at, 1), (model.reserved_at, 1),
            (model.out_asks_at, 1), (model.input_asks_at, 1), (model.avoidance_asks_at, 1),
        ):  # fmt: skip
            for slot in range(slots):
                places[first + new * slots + slot] = first + old * slots + slot
    places[model.down_at] = model.down_at
    packets, outs, masks = bytearray(256), bytearray(256), bytearray(256)
    for old_router, new_router in enumerate(order):
        packets[old_router + 1] = new_router + 1
    for old, new in enumerate(links):
        outs[old + 1] = new + 1
    outs[HERE] = HERE
    for down in model.network.tables:
        masks[down] = _mask(down, cables)
    numbers = {path: i for i, path in enumerate(model.cycles)}
    cycles = tuple(numbers.get(tuple(links[i] for i in path), 0) for path in model.cycles)
    return Image(
        places=tuple(places), packets=bytes(packets), outs=bytes(outs), masks=bytes(masks), cycles=cycles,
    )  # fmt: skip
