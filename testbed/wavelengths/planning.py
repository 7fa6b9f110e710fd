"""Makes a wavelength plan from options, together with the results of the greedy methods."""

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
    """Return the plan of the requested method, with the number of rounds of the greedy methods.

    The number of wavelengths and the switching are those of the network, unless they are given.

    Args:
        requested: The options.
        now: The clock that bounds the search, in seconds.

    Raises:
        InputError: A value is invalid.
        TopologyError: The network is invalid, or a pair has no path.
    """
    start_s = now()
    network = known_network(requested.network)
    pattern, pairs = _pairs(requested.pattern, network)
    paths = lightpaths_between(network, pairs)
    wavelengths = requested.wavelengths or network.attributes.get("wavelengths")
    if not isinstance(wavelengths, int):
        raise InputError(
            f"network {network.name!r} does not say how many wavelengths a fibre has;"
            " give --wavelengths"
        )
    switching: Switching = "wsxc"
    if requested.switching is not None:
        switching = CONVERSIONS[requested.switching]
    elif network.attributes.get("conversion") == "wixc":
        switching = "wixc"
    effort = Effort(seed=requested.seed, time_limit_s=requested.time_limit_s, now=now)

    def plan_by(method: str) -> WavelengthPlan:
        return assign_wavelengths(
            network,
            paths,
            wavelengths=wavelengths,
            switching=switching,
            method=method,
            effort=effort,
        )

    plan = plan_by(requested.method)
    baselines = {}
    for method in METHODS:
        if method not in ("liquid", requested.method):
            baselines[method] = len(plan_by(method).rounds)
    return replace(
        plan,
        pattern=pattern,
        seed=requested.seed,
        baselines=baselines,
        solve_s=now() - start_s,
    )


def _pairs(pattern: PatternLike, network: Network) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return the pattern as text, and its pairs of end points."""
    if pattern == "all-to-all":
        return "all-to-all", all_to_all(network)
    if isinstance(pattern, str):
        return pattern, read_pattern(pattern, network)
    pairs = parse_pairs([list(pair) for pair in pattern], network, "pattern")
    return ",".join(map(pair_text, pairs)), tuple(pairs)
