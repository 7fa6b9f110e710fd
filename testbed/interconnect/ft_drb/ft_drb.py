"""FT-DRB (document 003, chapter 3): its options, the routing it stands on, and the memory of its sources.

What it decides is in ft_drb_steps.py (sources) and escape_steps.py (routers); this module builds the arrays that those functions read and write.

An engine uses them so. When a message is made: ``select_path`` -> (i1, i2), kept in the packet beside what was sent
(for the ACK). At a router: while the target under ``header_id`` (i1, i2, destination R + h; NONE is skipped) is this
router, go on to the next; leave by ``next_link[router, target]``. Where that cable is down: a failure ACK (router, cable)
to the source (notifier "router") or the cable in the header's error flag (notifier "destination"), then ``escape_path``
with the number of earlier escapes of the packet gives new i1, i2; ``header_id`` 0, escape bit set. At the destination:
escape bit unset -> a latency ACK with (i1, i2, latency); set, and notifier "destination" -> a failure ACK with the flag's
cable. ACKs are routed and escape like data (their target is host R + source), but cause no ACKs. When an ACK reaches its
source: ``hear_failure`` or ``hear_latency``; a router's link-up notice (``link_up`` "router"): ``forget_failure``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from testbed.errors import InputError
from testbed.interconnect.ft_drb.ft_drb_arrays import (
    BY_CLOCK,
    BY_EITHER,
    BY_REQUEST,
    COUNTER_NAMES,
    NONE,
    FtDrbSettings,
    FtDrbState,
    Paths,
)
from topologies import Network
from topologies.routing_tables import static_routing

__all__ = ["FtDrbOptions", "Paths", "build_paths", "build_state", "count_events"]

MAX_PATHS = 64
_TEMPI = {"request": BY_REQUEST, "ack": BY_REQUEST, "clock": BY_CLOCK, "hybrid": BY_EITHER}


@dataclass(frozen=True, kw_only=True)
class FtDrbOptions:
    """Defaults of the thesis, and its design alternatives (3.6).

    ``paths``: most paths of a metapath; ``first_paths``: how many it starts with. ``notifications``: in a row, that mark
    a link as permanent; ``marking``: by them ("ack"), by ``marking_s`` without a latency ACK ("clock"), by either
    ("hybrid"). ``probing``: 1 in ``probe_every`` messages whose minimal path is marked tries it ("request"), or one every
    ``probe_s`` ("clock"), or either ("hybrid"). ``notifier``: who tells the source of a failure, the "router" that meets
    it or the "destination" (by the error flag of the header). ``link_up``: whether the source finds out by "probe" or the
    "router" tells those whom it notified. ``reuse_notifications``: hosts on the way of a notification learn from it;
    ``notify_queued``: a failure is told to the sources of all packets that wait for the link (the two improvements of
    3.6.1). ``threshold``: Thl over the zero-load latency of the pair's minimal path; ``tolerance``: Tol over Thl.
    ``ack_bytes``: size of every ACK. ``always``: metapaths without failures too, as DRB does. ``hop_cap_diameters``: a
    packet that has crossed so many diameters of links is a livelock. Raises InputError for values out of range.
    """

    paths: int = 4
    first_paths: int = 1
    notifications: int = 5
    marking: str = "ack"
    marking_s: float = 0.05
    probing: str = "request"
    probe_every: int = 100
    probe_s: float = 0.05
    notifier: str = "router"
    link_up: str = "probe"
    reuse_notifications: bool = False
    notify_queued: bool = False
    threshold: float = 2.0
    tolerance: float = 0.25
    ack_bytes: int = 64
    always: bool = False
    hop_cap_diameters: int = 16

    def __post_init__(self) -> None:
        for name, least, most in (
            ("paths", 1, MAX_PATHS),
            ("first_paths", 1, self.paths),
            ("notifications", 1, 255),
            ("probe_every", 1, 10**9),
            ("ack_bytes", 1, 65535),
            ("hop_cap_diameters", 2, 10**6),
        ):
            if not least <= getattr(self, name) <= most:
                raise InputError(f"ft-drb: {name} {getattr(self, name)}; give {least} to {most}")
        for name in ("marking_s", "probe_s", "threshold"):
            if not getattr(self, name) > 0:
                raise InputError(f"ft-drb: {name} {getattr(self, name)}; give a number above 0")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"ft-drb: tolerance {self.tolerance}; give 0 or more, below 1")
        for name, words in (
            ("marking", ("ack", "clock", "hybrid")),
            ("probing", ("request", "clock", "hybrid")),
            ("notifier", ("router", "destination")),
            ("link_up", ("probe", "router")),
        ):
            if getattr(self, name) not in words:
                raise InputError(f"ft-drb: {name} {getattr(self, name)!r}; give {' or '.join(words)}")

    def settings(self, *, ticks_per_s: float, base_ticks: int, hop_ticks: int, seed: int) -> FtDrbSettings:
        """For an engine whose packet takes ``base_ticks`` + ``hop_ticks`` a link between routers where nothing is in its way."""
        return FtDrbSettings(
            paths=self.paths,
            first_paths=self.first_paths,
            notifications=self.notifications,
            marking=_TEMPI[self.marking],
            marking_ticks=round(self.marking_s * ticks_per_s),
            probing=_TEMPI[self.probing],
            probe_every=self.probe_every,
            probe_ticks=round(self.probe_s * ticks_per_s),
            always=int(self.always),
            threshold=float(self.threshold),
            tolerance=float(self.tolerance),
            base_ticks=base_ticks,
            hop_ticks=hop_ticks,
            seed=seed,
        )


def build_paths(network: Network) -> Paths:
    """The network's own static routing as tables, routers and hosts numbered as in ``switches`` and ``hosts``.

    Dimension order on tori, meshes and rings, d-mod-k on fat trees, else what the network names. O(routers^2) memory.
    Raises InputError where a host hangs on no switch or several, or the network has fewer than two switches.
    """
    routers = {switch.id: i for i, switch in enumerate(network.switches)}
    hosts = {host.id: i for i, host in enumerate(network.hosts)}
    if len(routers) < 2 or not hosts:
        raise InputError(f"{network.name}: {len(routers)} switches and {len(hosts)} hosts; give a network with both")
    source = np.array([routers.get(link.source, NONE) for link in network.links], dtype=np.int32)
    target = np.array([routers.get(link.target, NONE) for link in network.links], dtype=np.int32)
    host_router = _host_routers(network, routers, hosts)
    table = _grid_table(network, source, target) if _is_grid(network) else _searched_table(network, routers)
    if _is_grid(network):
        at_hosts = table[:, host_router]
        table = np.concatenate([table, at_hosts], axis=1)
    out_first, out_link = _out_links(len(routers), source, target)
    near_first, near, near_hops = _supernodes(len(routers), out_first, out_link, target)
    is_tree = network.attributes.get("family") == "fat-tree"
    radix = int(network.attributes["k"]) if is_tree else 0
    return Paths(
        routers=len(routers),
        next_link=table,
        link_source=source,
        link_target=target,
        cable=_cables(source, target),
        host_router=host_router,
        out_first=out_first,
        out_link=out_link,
        near_first=near_first,
        near=near,
        near_hops=near_hops,
        radix=radix,
        width=radix ** (int(network.attributes["n"]) - 1) if is_tree else 0,
        diameter=_diameter(network, table, target),
    )


def build_state(paths: Paths, options: FtDrbOptions) -> FtDrbState:
    """Sources that know of no failure. Memory is taken as pairs are used (H x H x paths entries at most)."""
    hosts = len(paths.host_router)
    cables = int(paths.cable.max()) + 1
    clocked = (hosts, cables) if options.marking != "ack" else (1, 1)
    pairs = hosts * hosts
    return FtDrbState(
        heard=np.zeros((hosts, cables), dtype=np.uint8),
        permanent=np.zeros((hosts, cables), dtype=np.uint8),
        heard_at=np.zeros(clocked, dtype=np.int64),
        marks=np.zeros(hosts, dtype=np.int64),
        listed=np.zeros(hosts, dtype=np.int64),
        version=np.zeros(hosts, dtype=np.int64),
        since_probe=np.zeros(hosts, dtype=np.int64),
        probed_at=np.zeros(hosts, dtype=np.int64),
        configured=np.zeros(pairs, dtype=np.int64),
        known=np.zeros(pairs, dtype=np.int64),
        active=np.zeros(pairs, dtype=np.int64),
        first_middle=np.zeros((pairs, options.paths), dtype=np.int32),
        second_middle=np.zeros((pairs, options.paths), dtype=np.int32),
        latency=np.zeros((pairs, options.paths), dtype=np.int64),
        counters=np.zeros(len(COUNTER_NAMES), dtype=np.int64),
    )


def count_events(state: FtDrbState) -> Mapping[str, int]:
    """What happened, by name."""
    return {name: int(value) for name, value in zip(COUNTER_NAMES, state.counters, strict=True)}


def _is_grid(network: Network) -> bool:
    return isinstance(network.attributes.get("shape"), list) and isinstance(network.attributes.get("wraps"), bool)


def _grid_table(network: Network, source: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.int32]:
    """R x R: the first link of the dimension-order path (as topologies.routing_tables: the shorter way, ties to +)."""
    shape, wraps = list(network.attributes["shape"]), bool(network.attributes["wraps"])
    count = int(np.prod(shape))
    by_ends = {
        (int(a), int(b)): i for i, (a, b) in reversed(list(enumerate(zip(source, target, strict=True)))) if a >= 0 <= b
    }
    place = np.array(np.unravel_index(np.arange(count), shape))
    table = np.full((count, count), NONE, dtype=np.int32)
    open_still = np.ones((count, count), dtype=bool)
    for dimension, size in enumerate(shape):
        ahead = (place[dimension][None, :] - place[dimension][:, None]) % size
        differs = (ahead != 0) & open_still
        plus = 2 * ahead <= size if wraps else place[dimension][None, :] > place[dimension][:, None]
        for sign in (1, -1):
            there = place.copy()
            there[dimension] = (there[dimension] + sign) % size
            neighbour = np.ravel_multi_index(tuple(there), tuple(shape))
            links = np.array([by_ends.get((r, int(neighbour[r])), NONE) for r in range(count)], dtype=np.int32)
            chosen = differs & (plus if sign == 1 else ~plus)
            table = np.where(chosen, links[:, None], table)
        open_still &= ahead == 0
    return table


def _searched_table(network: Network, routers: Mapping[str, int]) -> NDArray[np.int32]:
    """R x (R + H): the first link of the path that the network's static routing finds from each router."""
    routing = static_routing(network)
    targets = [switch.id for switch in network.switches] + [host.id for host in network.hosts]
    table = np.full((len(routers), len(targets)), NONE, dtype=np.int32)
    for switch, r in routers.items():
        for t, goal in enumerate(targets):
            path = routing(switch, goal)
            if path and path[0][1] in routers:
                table[r, t] = network.link_index[path[0]]
    return table


def _host_routers(network: Network, routers: Mapping[str, int], hosts: Mapping[str, int]) -> NDArray[np.int32]:
    found = np.full(len(hosts), NONE, dtype=np.int32)
    for host, number in hosts.items():
        ends = {network.links[i].target for i in network.out_links(host)}
        if len(ends) != 1 or next(iter(ends)) not in routers:
            raise InputError(f"{network.name}: host {host!r} is joined to {len(ends)} nodes; it needs one switch")
        found[number] = routers[ends.pop()]
    return found


def _cables(source: NDArray[np.int32], target: NDArray[np.int32]) -> NDArray[np.int32]:
    """One number a pair of switches, in the order of the links; parallel links share their cable's fate."""
    numbers: dict[tuple[int, int], int] = {}
    found = np.full(len(source), NONE, dtype=np.int32)
    for i, (a, b) in enumerate(zip(source.tolist(), target.tolist(), strict=True)):
        if a >= 0 and b >= 0:
            found[i] = numbers.setdefault((min(a, b), max(a, b)), len(numbers))
    return found


def _out_links(
    routers: int, source: NDArray[np.int32], target: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    inner = [i for i in range(len(source)) if source[i] >= 0 and target[i] >= 0]
    inner.sort(key=lambda i: (int(source[i]), i))
    counts = np.bincount(source[inner], minlength=routers)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int32), np.array(inner, dtype=np.int32)


def _supernodes(
    routers: int, out_first: NDArray[np.int32], out_link: NDArray[np.int32], target: NDArray[np.int32]
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Around every router: those of 1 hop in the order of its links, then those of 2."""

    def neighbours(router: int) -> list[int]:
        return [int(target[link]) for link in out_link[out_first[router] : out_first[router + 1]]]

    first, near, hops = [0], [], []
    for router in range(routers):
        ones = list(dict.fromkeys(neighbours(router)))
        twos = [n for one in ones for n in neighbours(one)]
        others = [n for n in dict.fromkeys(twos) if n != router and n not in ones]
        near += ones + others
        hops += [1] * len(ones) + [2] * len(others)
        first.append(len(near))
    return np.array(first, dtype=np.int32), np.array(near, dtype=np.int32), np.array(hops, dtype=np.int32)


def _diameter(network: Network, table: NDArray[np.int32], target: NDArray[np.int32]) -> int:
    """The longest static path between routers, in links; also a bound where routing is no shortest path."""
    if _is_grid(network):
        shape, wraps = network.attributes["shape"], network.attributes["wraps"]
        return sum(size // 2 if wraps else size - 1 for size in shape)
    longest = 0
    routers = len(table)
    for goal in range(table.shape[1]):
        hops: dict[int, int] = {}
        for start in range(routers):
            at, length = start, 0
            while table[at, goal] != NONE and length <= routers:
                at = int(target[table[at, goal]])
                length += 1
            hops[start] = length
        longest = max(longest, *hops.values())
    return longest
