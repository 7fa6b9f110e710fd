"""Wavelength assignment as liquid scheduling: lightpaths into rounds of W wavelengths, for WSXC and WIXC
cross-connects.

Greedy per-lightpath assignments next to it: first fit, random fit, most used, longest first (Gabrielyan 2007, 3.2.2).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed.errors import InputError
from testbed.scheduling.fast.packing import pack, solve_packing
from testbed.wavelengths.checker import check_wavelength_plan
from testbed.wavelengths.greedy import GREEDY, greedy_rounds
from testbed.wavelengths.plan import (
    MAX_WAVELENGTHS,
    SWITCHINGS,
    Lightpath,
    LitPath,
    Switching,
    WavelengthPlan,
)
from topologies import LinkId, Network, lists_by_key, nearest
from topologies.routing_tables import static_routing

METHODS = ("liquid", *GREEDY)


@dataclass(frozen=True, kw_only=True)
class Effort:
    """``time_limit_s`` bounds the search by the clock ``now`` (seconds; None: no bound) and CP-SAT by its own; ``seed``
    of what is random."""

    seed: int = 1
    time_limit_s: float = 10.0
    now: Callable[[], float] | None = None

    def start(self) -> Callable[[], float]:
        """Seconds left of the limit from now on; without a clock, as many at every look."""
        clock = self.now
        if clock is None:
            return lambda: self.time_limit_s
        until = clock() + self.time_limit_s
        return lambda: max(0.0, until - clock())


def fibres(network: Network) -> frozenset[LinkId]:
    """Links with the attribute ``medium`` "fibre"; all links of a network that marks none."""
    marked = frozenset(
        link.id for link in network.links if link.attributes.get("medium") == "fibre"
    )
    return marked or frozenset(link.id for link in network.links)


def optical_end_points(network: Network) -> tuple[str, ...]:
    """Where lightpaths begin and end: the edge routers, or every end point of a network that has none."""
    routers = tuple(n.id for n in network.nodes if n.attributes.get("role") == "edge-router")
    return routers or tuple(n.id for n in network.end_points)


def all_to_all(network: Network) -> tuple[tuple[str, str], ...]:
    """Every ordered pair of different end points."""
    ends = optical_end_points(network)
    return tuple((a, b) for a in ends for b in ends if a != b)


def lightpaths_between(network: Network, pairs: Iterable[tuple[str, str]]) -> tuple[Lightpath, ...]:
    """A lightpath a pair (a pair may come again) over the fibres of the network's static route.

    Links at either end that are no fibres (a host's cable to its edge router) are left out. Raises TopologyError for
    unknown nodes and pairs without a path, InputError for pairs without a fibre and for none at all.
    """
    routing, light = static_routing(network), fibres(network)
    paths = []
    for source, target in pairs:
        links = [link for link in routing(source, target) if link in light]
        if not links:
            raise InputError(
                f"pattern: {source!r} to {target!r} crosses no fibre; name two different edge routers"
            )
        paths.append(Lightpath(source=links[0][0], target=links[-1][1], links=tuple(links)))
    if not paths:
        raise InputError("pattern: no pairs; name at least one lightpath")
    return tuple(paths)


def assign_wavelengths(
    network: Network,
    lightpaths: Sequence[Lightpath],
    *,
    wavelengths: int,
    switching: Switching,
    method: str = "liquid",
    effort: Effort | None = None,
) -> WavelengthPlan:
    """Light every path once, in few rounds; the plan is checked before it is returned.

    WSXC: a path takes one wavelength on all its fibres, so that a round is ``wavelengths`` frames of a schedule. WIXC:
    a path may change it at every switch, so that a round bears ``wavelengths`` paths a fibre; conversions are then made
    as few as a greedy colouring finds. No plan has fewer rounds than the bottleneck load over ``wavelengths``, rounded
    up: ``bound``, raised where CP-SAT proves more. Raises InputError for values out of range or an unknown method.
    """
    _check(lightpaths, wavelengths, switching, method)
    effort = effort or Effort()
    paths = [[network.link_index[link] for link in path.links] for path in lightpaths]
    if method in GREEDY:
        colours = greedy_rounds(paths, wavelengths, switching == "wixc", method, seed=effort.seed)
        found = _Found(rounds=_gathered(colours), bound=-(-_bottleneck_load(paths) // wavelengths))
    else:
        found = _liquid(paths, wavelengths, switching, effort)
    plan = WavelengthPlan(
        network=network,
        lightpaths=tuple(lightpaths),
        wavelengths=wavelengths,
        switching=switching,
        method=method,
        bottleneck_load=_bottleneck_load(paths),
        optimal=True if len(found.rounds) == found.bound else None,
        **vars(found),
    )
    check_wavelength_plan(plan)
    return plan


Rounds = tuple[tuple[LitPath, ...], ...]


@dataclass(frozen=True, kw_only=True)
class _Found:
    rounds: Rounds
    bound: int
    frames: int | None = None


def _check(lightpaths: Sequence[Lightpath], wavelengths: int, switching: str, method: str) -> None:
    if not 1 <= wavelengths <= MAX_WAVELENGTHS:
        raise InputError(f"wavelengths {wavelengths}: give 1 to {MAX_WAVELENGTHS}")
    if switching not in SWITCHINGS:
        raise InputError(
            f"switching {switching!r} is neither {SWITCHINGS[0]!r} nor {SWITCHINGS[1]!r}"
        )
    if method not in METHODS:
        raise InputError(f"method {method!r} is unknown; {nearest(method, METHODS, 'there are ')}")
    if not lightpaths:
        raise InputError("no lightpaths; name at least one")


def _bottleneck_load(paths: Sequence[Sequence[int]]) -> int:
    return max(Counter(link for path in paths for link in path).values())


def _liquid(
    paths: Sequence[Sequence[int]], wavelengths: int, switching: Switching, effort: Effort
) -> _Found:
    """As few rounds as ejection, then CP-SAT, finds; ``bound`` rises past numbers of rounds that CP-SAT refutes.

    First a liquid schedule (as many frames as the bottleneck bears paths), then as many frames as the rounds have. A
    WIXC network takes the WSXC plan where that has as few rounds: it needs no conversion.
    """
    heaviest, left_s = _bottleneck_load(paths), effort.start()
    rounds = bound = -(-heaviest // wavelengths)
    kinds = [(heaviest, 1)]
    while True:
        kinds += [(wavelengths * rounds, 1), (rounds, wavelengths)][
            : 1 if switching == "wsxc" else 2
        ]
        for bins, capacity in dict.fromkeys(kinds):
            placed = pack(paths, bins, capacity, seed=effort.seed)
            if placed is not None:
                return _dealt(paths, placed, capacity, wavelengths, bound)
        bins, capacity = kinds[-1]
        answer = solve_packing(paths, bins, capacity, time_limit_s=left_s(), seed=effort.seed)
        if answer.state == "found":
            return _dealt(paths, answer.bins, capacity, wavelengths, bound)
        if answer.state == "impossible" and bound == rounds:
            bound += 1
        rounds, kinds = rounds + 1, []


def _dealt(
    paths: Sequence[Sequence[int]],
    placed: Sequence[int],
    capacity: int,
    wavelengths: int,
    bound: int,
) -> _Found:
    """Bins of capacity 1 are frames, dealt into rounds of W; bins of capacity W are rounds, whose fibres are then
    coloured."""
    if capacity == 1:
        frames = {b: k for k, b in enumerate(dict.fromkeys(sorted(placed)))}
        colours = [
            (frames[b] // wavelengths, (frames[b] % wavelengths,) * len(p))
            for p, b in zip(paths, placed, strict=True)
        ]
        return _Found(rounds=_gathered(colours), bound=bound, frames=len(frames))
    colours = [(b, ()) for b in placed]
    for number in set(placed):
        members = [i for i, b in enumerate(placed) if b == number]
        for i, own in zip(
            members, colour_round([paths[i] for i in members], wavelengths), strict=True
        ):
            colours[i] = (number, own)
    return _Found(rounds=_gathered(colours), bound=bound)


def colour_round(paths: Sequence[Sequence[int]], wavelengths: int) -> list[tuple[int, ...]]:
    """Wavelengths of each path's links, no link twice the same, with few changes along a path. O(paths * length * W).

    Paths that a packing into W frames can take keep one; else the longest paths first take the wavelength that is free
    on all their links, or the one free on most of the next links, changing where it ends. Every link is in at most W
    paths.
    """
    frames = pack(paths, wavelengths, 1, steps=2_000)
    if frames is not None:
        return [(w,) * len(p) for w, p in zip(frames, paths, strict=True)]
    free: dict[int, set[int]] = {link: set(range(wavelengths)) for p in paths for link in p}
    coloured: list[tuple[int, ...]] = [()] * len(paths)
    for i in sorted(range(len(paths)), key=lambda i: (-len(paths[i]), i)):
        coloured[i] = _fewest_changes([free[link] for link in paths[i]])
        for link, wavelength in zip(paths[i], coloured[i], strict=True):
            free[link].remove(wavelength)
    return coloured


def _fewest_changes(choices: Sequence[set[int]]) -> tuple[int, ...]:
    """One of each set, changing as seldom as can be: as far as one reaches, then again; the lowest of those that reach
    so far."""
    taken: list[int] = []
    while len(taken) < len(choices):
        reach = choices[len(taken)]
        length = 1
        for more in choices[len(taken) + 1 :]:
            if not reach & more:
                break
            reach, length = reach & more, length + 1
        taken += [min(reach)] * length
    return tuple(taken)


def _gathered(colours: Sequence[tuple[int, tuple[int, ...]]]) -> Rounds:
    """(round, wavelengths) of every path -> rounds without gaps, their paths by wavelength and index."""
    lit = (LitPath(lightpath=i, wavelengths=own) for i, (_, own) in enumerate(colours))
    rounds = lists_by_key((number, path) for (number, _), path in zip(colours, lit, strict=True))
    return tuple(
        tuple(sorted(rounds[n], key=lambda lit: (lit.wavelengths[0], lit.lightpath)))
        for n in sorted(rounds)
    )
