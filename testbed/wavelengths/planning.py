"""From options to the rounds of lightpaths, beside what greedy assignments make of the same lightpaths."""

from collections.abc import Callable
from dataclasses import replace

from testbed.errors import InputError
from testbed.model.naming.names import known_network, pair_text
from testbed.scheduling.traffic.patterns import parse_pairs, read_pattern
from testbed.wavelengths.assignment import (
    METHODS,
    Effort,
    all_to_all,
    assign_wavelengths,
    lightpaths_between,
)
from testbed.wavelengths.options import CONVERSIONS, PatternLike, WavelengthOptions
from testbed.wavelengths.plan import Switching, WavelengthPlan
from topologies import Network


def build_wavelengths(requested: WavelengthOptions, *, now: Callable[[], float]) -> WavelengthPlan:
    """The plan, with the rounds that every other method needs; wavelengths a fibre and switching are the network's own
    unless given.

    ``now``: the clock that bounds the search. Raises InputError or TopologyError for values that cannot be used.
    """
    began, network = now(), known_network(requested.network)
    pattern, pairs = _pairs(requested.pattern, network)
    paths = lightpaths_between(network, pairs)
    wavelengths = requested.wavelengths or network.attributes.get("wavelengths")
    if not isinstance(wavelengths, int):
        raise InputError(
            f"network {network.name!r} does not say how many wavelengths a fibre has; give --wavelengths"
        )
    own: Switching = "wixc" if network.attributes.get("conversion") == "wixc" else "wsxc"
    effort = Effort(seed=requested.seed, time_limit_s=requested.time_limit_s, now=now)

    def assigned(method: str) -> WavelengthPlan:
        switching = own if requested.switching is None else CONVERSIONS[requested.switching]
        return assign_wavelengths(
            network,
            paths,
            wavelengths=wavelengths,
            switching=switching,
            method=method,
            effort=effort,
        )

    plan = assigned(requested.method)
    others = {m: len(assigned(m).rounds) for m in METHODS if m not in ("liquid", requested.method)}
    return replace(
        plan, pattern=pattern, seed=requested.seed, baselines=others, solve_s=now() - began
    )


def _pairs(pattern: PatternLike, network: Network) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The pattern in words, and its pairs."""
    if isinstance(pattern, str):
        return pattern, all_to_all(network) if pattern == "all-to-all" else read_pattern(
            pattern, network
        )
    pairs = parse_pairs([list(pair) for pair in pattern], network, "pattern")
    return ",".join(map(pair_text, pairs)), tuple(pairs)
