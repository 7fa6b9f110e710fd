"""The arrays that FT-DRB reads and writes: static routing, settings in ticks, what sources remember.

They are built in ft_drb.py and used by the functions of ft_drb_steps.py and escape_steps.py, in Python and compiled.
"""

from __future__ import annotations

from typing import Any, NamedTuple

NONE = -1  # no intermediate router

BY_REQUEST, BY_CLOCK, BY_EITHER = 0, 1, 2  # when a probe is sent; when a link is marked as permanent (ACK: request)

(
    NOTIFICATIONS,
    LATENCIES,
    MARKED,
    CLEARED,
    CONFIGURED,
    GROWN,
    SHRUNK,
    PROBES,
    DIRECT,
    ALTERNATIVE,
    ESCAPES,
    NO_WAY,
) = range(12)
COUNTER_NAMES = (
    "notifications",
    "latencies",
    "marked_permanent",
    "cleared",
    "metapaths_configured",
    "metapaths_grown",
    "metapaths_shrunk",
    "probes",
    "sent_direct",
    "sent_alternative",
    "escapes",
    "escapes_without_way",
)
TOO_LONG = 1 << 30
LOCAL_ESCAPES = 6
FAR_DRAWN = 16
DETOUR = 1


class Paths(NamedTuple):
    """Static routing over R routers and H hosts, links numbered as ``network.links``. Targets: router t is t, host h is R + h.

    ``next_link[r, t]`` (R x (R + H)): the link that leaves router r for target t, -1 at the target's own router.
    ``link_source``, ``link_target``: the routers at a link's ends (-1: a host). ``cable``: which cable a link belongs to
    (both directions of a pair of switches: one cable), -1 for hosts' links. ``host_router``: each host's router.
    Router r's links to other routers are ``out_link[out_first[r]] .. out_link[out_first[r + 1] - 1]``; the supernode around
    it, by distance (1 hop, then 2), is ``near[near_first[r]] ..``. ``radix``, ``width``: k and the switches a level of a
    k-ary n-tree (router l * width + w), else 0. ``diameter``: the longest path between routers, in links.
    """

    routers: int
    next_link: Any
    link_source: Any
    link_target: Any
    cable: Any
    host_router: Any
    out_first: Any
    out_link: Any
    near_first: Any
    near: Any
    near_hops: Any
    radix: int
    width: int
    diameter: int


class FtDrbSettings(NamedTuple):
    """``FtDrbOptions`` in whole numbers and ticks of the engine."""

    paths: int
    first_paths: int
    notifications: int
    marking: int
    marking_ticks: int
    probing: int
    probe_every: int
    probe_ticks: int
    always: int
    threshold: float
    tolerance: float
    base_ticks: int
    hop_ticks: int
    seed: int


class FtDrbState(NamedTuple):
    """What sources remember. ``heard[s, c]``: notifications in a row of cable c at source s, ``permanent[s, c]``,
    ``heard_at[s, c]``: the first of them (ticks; 1 x 1 where marking needs no clock). ``marks[s]``: permanent cables,
    ``listed[s]``: cables in the list, ``version[s]``: counts changes of the permanent ones, ``since_probe[s]``,
    ``probed_at[s]``. One row a pair (s * H + d): ``configured`` (version + 1, 0: never), ``known``, ``active``: how many
    paths, ``first_middle``, ``second_middle``, ``latency`` (pair x paths, ticks). ``counters``: see COUNTER_NAMES.
    """

    heard: Any
    permanent: Any
    heard_at: Any
    marks: Any
    listed: Any
    version: Any
    since_probe: Any
    probed_at: Any
    configured: Any
    known: Any
    active: Any
    first_middle: Any
    second_middle: Any
    latency: Any
    counters: Any
