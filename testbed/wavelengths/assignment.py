"""Wavelength assignment as liquid scheduling: assigns lightpaths to rounds of W wavelengths.

Cross-connects may be wavelength-selective (WSXC) or wavelength-interchanging (WIXC). Greedy methods
are available for comparison: first fit, random fit, most used, longest first (Gabrielyan 2007,
3.2.2).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from testbed.errors import InputError
from testbed.scheduling.fast.packing import pack, solve_packing
from testbed.wavelengths.checker import check_wavelength_plan
from testbed.wavelengths.greedy import GREEDY, Colour, greedy_rounds
from testbed.wavelengths.plan import (
    MAX_WAVELENGTHS,
    SWITCHINGS,
    Lightpath,
    LitPath,
    Switching,
    WavelengthPlan,
)
from topologies import LinkId, Network, nearest
from topologies.routing_tables import static_routing

METHODS = ("liquid", *GREEDY)
# The steps of ejection that ``colour_round`` spends on finding wavelengths without conversions.
_COLOURING_STEPS = 2_000


@dataclass(frozen=True, kw_only=True)
class Effort:
    """The bounds of a search.

    Attributes:
        seed: Seed of the random generators.
        time_limit_s: Time limit of the complete search by the clock ``now``, and of each call of
            CP-SAT by its own clock.
        now: The clock, in seconds. If None, the complete search has no limit.
    """

    seed: int = 1
    time_limit_s: float = 10.0
    now: Callable[[], float] | None = None

    def start(self) -> Callable[[], float]:
        """Start the clock, and return a function that returns the remaining seconds.

        Without a clock, that is always the time limit.
        """
        clock = self.now
        end_s = self.time_limit_s if clock is None else clock() + self.time_limit_s

        def remaining_s() -> float:
            now_s = 0.0 if clock is None else clock()
            return max(0.0, end_s - now_s)

        return remaining_s


def fibres(network: Network) -> frozenset[LinkId]:
    """Return the links whose attribute ``medium`` is "fibre", or all links if there are none."""
    links = [link.id for link in network.links if link.attributes.get("medium") == "fibre"]
    if not links:
        links = [link.id for link in network.links]
    return frozenset(links)


def optical_end_points(network: Network) -> tuple[str, ...]:
    """Return the nodes at which lightpaths begin and end.

    They are the edge routers, or all end points of a network without edge routers.
    """
    routers = [node.id for node in network.nodes if node.attributes.get("role") == "edge-router"]
    if routers:
        return tuple(routers)
    return tuple(node.id for node in network.end_points)


def all_to_all(network: Network) -> tuple[tuple[str, str], ...]:
    """Return all ordered pairs of different end points."""
    ends = optical_end_points(network)
    pairs = []
    for source in ends:
        pairs += [(source, target) for target in ends if target != source]
    return tuple(pairs)


def lightpaths_between(network: Network, pairs: Iterable[tuple[str, str]]) -> tuple[Lightpath, ...]:
    """Return a lightpath for each pair, over the fibres of the network's static route.

    Links at both ends of the route that are no fibres, as the cable from a host to its edge router,
    are left out.

    Args:
        network: The network.
        pairs: The sources and targets; a pair may be there several times.

    Raises:
        TopologyError: A node is unknown, or a pair has no path.
        InputError: There is no pair, or a route has no fibre.
    """
    routing = static_routing(network)
    optical_links = fibres(network)
    paths = []
    for source, target in pairs:
        links = [link for link in routing(source, target) if link in optical_links]
        if not links:
            raise InputError(
                f"pattern: {source!r} to {target!r} crosses no fibre;"
                " name two different edge routers"
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
    """Return a plan that lights every path once, in few rounds. The plan has been checked.

    With WSXC a path has one wavelength on all its fibres, so that a round has as many frames of a
    schedule as a fibre has wavelengths. With WIXC a path may change its wavelength at every switch,
    so that a round can have as many paths over each fibre as this has wavelengths; a greedy
    colouring then keeps the number of conversions small.

    The bound of the plan is the bottleneck load over the number of wavelengths, rounded up. It is
    higher if CP-SAT proves so.

    Args:
        network: The network.
        lightpaths: The lightpaths.
        wavelengths: Number of wavelengths of each fibre.
        switching: What the cross-connects can do.
        method: One of METHODS.
        effort: The bounds of the search; the defaults of ``Effort`` if None.

    Raises:
        InputError: A value is out of range, or the method is unknown.
    """
    _check(lightpaths, wavelengths, switching, method)
    effort = effort or Effort()
    paths = []
    for lightpath in lightpaths:
        paths.append([network.link_index[link] for link in lightpath.links])
    bottleneck_load = _bottleneck_load(paths)
    if method in GREEDY:
        colours = greedy_rounds(paths, wavelengths, switching == "wixc", method, seed=effort.seed)
        bound = _rounded_up(bottleneck_load, wavelengths)
        assignment = _Assignment(rounds=_rounds_of_colours(colours), bound=bound)
    else:
        assignment = _liquid(paths, wavelengths, switching, effort)
    plan = WavelengthPlan(
        network=network,
        lightpaths=tuple(lightpaths),
        wavelengths=wavelengths,
        switching=switching,
        method=method,
        bottleneck_load=bottleneck_load,
        optimal=True if len(assignment.rounds) == assignment.bound else None,
        rounds=assignment.rounds,
        bound=assignment.bound,
        frames=assignment.frames,
    )
    check_wavelength_plan(plan)
    return plan


Rounds = tuple[tuple[LitPath, ...], ...]


@dataclass(frozen=True, kw_only=True)
class _Assignment:
    """The result of a method: the fields of the plan of the same names."""

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
    """Return the number of paths over the most loaded link."""
    load: Counter[int] = Counter()
    for path in paths:
        load.update(path)
    return max(load.values())


def _rounded_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)


def _liquid(
    paths: Sequence[Sequence[int]], wavelengths: int, switching: Switching, effort: Effort
) -> _Assignment:
    """Assign the paths to as few rounds as ejection and CP-SAT find.

    The search begins with the smallest possible number of rounds and increases it. First it looks
    for a liquid schedule, which has as many frames as the most loaded link has paths; then for as
    many frames as the rounds have. A WIXC network takes such a plan if there is one, because it
    needs no conversion; otherwise its rounds are filled without regard to wavelengths.

    The bound rises while CP-SAT proves that a number of rounds is not enough.
    """
    max_load = _bottleneck_load(paths)
    remaining_s = effort.start()
    rounds = _rounded_up(max_load, wavelengths)
    bound = rounds
    # The packings to try: the number of bins, and the number of paths over a link in each bin.
    packings = [(max_load, 1)]
    while True:
        packings.append((wavelengths * rounds, 1))
        if switching == "wixc":
            packings.append((rounds, wavelengths))
        for bins, capacity in dict.fromkeys(packings):
            bin_of_path = pack(paths, bins, capacity, seed=effort.seed)
            if bin_of_path is not None:
                return _assignment_of_bins(paths, bin_of_path, capacity, wavelengths, bound)
        bins, capacity = packings[-1]
        answer = solve_packing(paths, bins, capacity, time_limit_s=remaining_s(), seed=effort.seed)
        if answer.state == "found":
            return _assignment_of_bins(paths, answer.bins, capacity, wavelengths, bound)
        if answer.state == "impossible" and bound == rounds:
            bound += 1
        rounds += 1
        packings = []


def _assignment_of_bins(
    paths: Sequence[Sequence[int]],
    bin_of_path: Sequence[int],
    capacity: int,
    wavelengths: int,
    bound: int,
) -> _Assignment:
    """Convert the bins of a packing to rounds and wavelengths.

    Args:
        paths: The links of each path.
        bin_of_path: The bin of each path.
        capacity: Number of paths over a link in a bin. If it is 1, a bin is a frame, and W frames
            make a round. Otherwise a bin is a round, whose fibres are coloured here.
        wavelengths: Number of wavelengths of each fibre (W).
        bound: Number of rounds that every plan needs.
    """
    if capacity > 1:
        return _Assignment(
            rounds=_rounds_of_colours(_coloured_bins(paths, bin_of_path, wavelengths)),
            bound=bound,
        )
    # Empty frames are left out.
    frames = {number: i for i, number in enumerate(sorted(set(bin_of_path)))}
    colours: list[Colour] = []
    for path, number in zip(paths, bin_of_path, strict=True):
        round_number, wavelength = divmod(frames[number], wavelengths)
        colours.append((round_number, (wavelength,) * len(path)))
    return _Assignment(rounds=_rounds_of_colours(colours), bound=bound, frames=len(frames))


def _coloured_bins(
    paths: Sequence[Sequence[int]], bin_of_path: Sequence[int], wavelengths: int
) -> list[Colour]:
    """Return the bin of each path as its round, and wavelengths for its links."""
    colours: list[Colour] = [(number, ()) for number in bin_of_path]
    for round_number in set(bin_of_path):
        members = [i for i, number in enumerate(bin_of_path) if number == round_number]
        coloured = colour_round([paths[i] for i in members], wavelengths)
        for i, own_wavelengths in zip(members, coloured, strict=True):
            colours[i] = (round_number, own_wavelengths)
    return colours


def colour_round(paths: Sequence[Sequence[int]], wavelengths: int) -> list[tuple[int, ...]]:
    """Assign wavelengths to the links of all paths of a round, with few conversions.

    No two paths have the same wavelength on a link. If a packing into W frames can be found, every
    path keeps one wavelength. Otherwise the paths are coloured one by one, the longest first: a
    path takes the wavelength that is free on most of its next links, and changes where that ends.
    The time is O(paths * length * W).

    Args:
        paths: The links of each path. Every link must be in at most W paths.
        wavelengths: Number of wavelengths of each fibre (W).
    """
    frames = pack(paths, wavelengths, 1, steps=_COLOURING_STEPS)
    if frames is not None:
        return [(frame,) * len(path) for frame, path in zip(frames, paths, strict=True)]
    free: dict[int, set[int]] = {}
    for path in paths:
        for link in path:
            free[link] = set(range(wavelengths))
    coloured: list[tuple[int, ...]] = [()] * len(paths)
    for i in sorted(range(len(paths)), key=lambda i: (-len(paths[i]), i)):
        coloured[i] = _fewest_changes([free[link] for link in paths[i]])
        for link, wavelength in zip(paths[i], coloured[i], strict=True):
            free[link].remove(wavelength)
    return coloured


def _fewest_changes(choices: Sequence[set[int]]) -> tuple[int, ...]:
    """Choose one element of each set, so that the choice changes as seldom as possible.

    Each element is kept as long as it is in the next sets. Of the elements that can be kept equally
    long, the lowest is taken.
    """
    chosen: list[int] = []
    while len(chosen) < len(choices):
        in_all = choices[len(chosen)]
        length = 1
        for next_set in choices[len(chosen) + 1 :]:
            if not in_all & next_set:
                break
            in_all = in_all & next_set
            length += 1
        chosen += [min(in_all)] * length
    return tuple(chosen)


def _rounds_of_colours(colours: Sequence[Colour]) -> Rounds:
    """Return the lit paths of each round, without empty rounds, ordered by wavelength and index.

    Args:
        colours: The round and the wavelengths of each path.
    """
    paths_by_round: dict[int, list[LitPath]] = {}
    for i, (number, wavelengths) in enumerate(colours):
        lit = LitPath(lightpath=i, wavelengths=wavelengths)
        paths_by_round.setdefault(number, []).append(lit)
    rounds = []
    for number in sorted(paths_by_round):
        rounds.append(tuple(sorted(paths_by_round[number], key=_first_wavelength_and_index)))
    return tuple(rounds)


def _first_wavelength_and_index(lit: LitPath) -> tuple[int, int]:
    return lit.wavelengths[0], lit.lightpath
