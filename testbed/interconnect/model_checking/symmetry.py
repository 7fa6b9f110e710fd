"""Symmetries of a small network.

States that differ only by a rotation or reflection of the network are equivalent: the least of them
represents all.
"""

import itertools
from dataclasses import dataclass

from testbed.interconnect.model_checking.small_networks import SmallNetwork
from testbed.interconnect.model_checking.transition_system import HERE, NacTransitionSystem

# The new numbers of all routers, links and cables.
Symmetry = tuple[tuple[int, ...], list[int], list[int]]

# All orders of the routers are tried. In networks with more routers than this, only the identity.
MAX_ROUTERS = 6


def state_images(model: NacTransitionSystem) -> "list[Image]":
    """Return the effect of each symmetry on a state. The first symmetry is the identity."""
    return [_image(model, symmetry) for symmetry in symmetries(model.network)]


def symmetries(network: SmallNetwork) -> list[Symmetry]:
    """Return the orders of the routers that change neither links, flows, cables nor tables.

    Router r becomes ``order[r]``. The first symmetry is the identity.
    """
    identity = tuple(range(network.routers))
    orders = [identity]
    if network.routers <= MAX_ROUTERS:
        orders = list(itertools.permutations(identity))
    symmetries = []
    for order in orders:
        symmetry = _symmetry(network, order)
        if symmetry is not None:
            symmetries.append(symmetry)
    return symmetries


def _symmetry(network: SmallNetwork, order: tuple[int, ...]) -> Symmetry | None:
    """Return the symmetry of an order of the routers, or None if it changes the network."""
    link_at = {ends: i for i, ends in enumerate(network.links)}
    if len(link_at) < len(network.links):
        return None  # With parallel links, the ends do not identify a link.
    cable_at = {frozenset(cable): i for i, cable in enumerate(network.cables)}
    try:
        links = [link_at[order[a], order[b]] for a, b in network.links]
        cables = []
        for cable in network.cables:
            cables.append(cable_at[frozenset(links[i] for i in cable)])
    except KeyError:
        return None
    if {(order[a], order[b]) for a, b in network.flows} != set(network.flows):
        return None
    for router, goal in network.places():
        for down, table in network.tables.items():
            link = table[router][goal]
            if link < 0:
                continue
            image_table = network.tables[_image_of_mask(down, cables)]
            if image_table[order[router]][order[goal]] != links[link]:
                return None
    return order, links, cables


def _image_of_mask(down: int, cables: list[int]) -> int:
    """Return the bit set of failed cables with the cables' new numbers."""
    return sum(1 << new for old, new in enumerate(cables) if down >> old & 1)


@dataclass(frozen=True, kw_only=True)
class Image:
    """The effect of a symmetry on a state.

    Attributes:
        places: The position in the state from which each byte comes.
        packets: The new value of each byte of a buffer.
        outs: The new value of each output that a head requests.
        masks: The new value of each bit set of failed cables.
        cycles: The new number of each cycle.
    """

    places: tuple[int, ...]
    packets: bytes
    outs: bytes
    masks: bytes
    cycles: tuple[int, ...]


def _image(model: NacTransitionSystem, symmetry: Symmetry) -> Image:
    """Return the effect of a symmetry on a state."""
    order, links, cables = symmetry
    # First byte and number of bytes per link of each part of a state.
    parts = (
        (0, model.o),
        (model.inputs_at, model.a),
        (model.avoidance_at, 1),
        (model.reserved_at, 1),
        (model.out_asks_at, 1),
        (model.input_asks_at, 1),
        (model.avoidance_asks_at, 1),
    )
    places = [0] * model.signals_at
    for old, new in enumerate(links):
        for first, slots in parts:
            for slot in range(slots):
                places[first + new * slots + slot] = first + old * slots + slot
    places[model.down_at] = model.down_at
    packets = bytearray(256)
    for old_router, new_router in enumerate(order):
        packets[old_router + 1] = new_router + 1
    outs = bytearray(256)
    for old, new in enumerate(links):
        outs[old + 1] = new + 1
    outs[HERE] = HERE
    masks = bytearray(256)
    for down in model.network.tables:
        masks[down] = _image_of_mask(down, cables)
    number_of_cycle = {path: i for i, path in enumerate(model.cycles)}
    cycles = []
    for path in model.cycles:
        image = tuple(links[i] for i in path)
        cycles.append(number_of_cycle.get(image, 0))
    return Image(
        places=tuple(places),
        packets=bytes(packets),
        outs=bytes(outs),
        masks=bytes(masks),
        cycles=tuple(cycles),
    )
