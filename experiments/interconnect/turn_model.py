"""The turn model in the setting of Zarza 2011, 5.6.7: odd-even turns on a 16x16 torus with three dead links, beside
none."""

from itertools import product

from experiments.interconnect.routing_comparison import rival_point
from experiments.interconnect.samples import of_failures
from testbed.model.studies import Points, Rows, grouped, spread, where

NETWORK, LOADS, DEAD = "torus:16x16", (0.05, 0.2, 0.24, 0.25, 0.27, 0.3, 0.35, 0.4), 3
LENGTH_S, SHARES = 0.008, (0.1, 1.0, 2.0)
"""As in the study of FT-DRB near saturation; a tenth of it and twice it beside."""
MORE_SEEDS = {0.05: 10, 0.24: 10, 0.27: 10}
"""At 90 % of the saturation that earlier runs found: 0.3 of a link on the coarser grid of a first, 0.27 on that of a
second."""


def turn_points(seed: int) -> Points:
    """Each load and share of the time with the dead links and without, for ``routing_comparison.measure``."""
    return [
        rival_point(
            "turn",
            NETWORK,
            ("odd-even", "none"),
            share=share,
            seconds=LENGTH_S,
            faults=dead,
            load=load,
            seed=s,
            bytes=512,
        )
        for load, share, dead in product(LOADS, SHARES, (0, DEAD))
        for s in range(seed, seed + MORE_SEEDS.get(load, 3))
    ]


def turn_performances(rows: Rows) -> tuple[list[list[float]], str]:
    """Performance with the dead links at 90 % of its own saturation (latency three times that of the least load), of
    each of ``SHARES``; and which load that is, in words."""
    able = where(rows, cannot="")
    whole = grouped(where(able, share=1.0, faults=0), "load", "latency_s")
    means = {load: spread(values)[0] for load, values in sorted(whole.items())}
    base = next(iter(means.values()))
    saturation = next((load for load, value in means.items() if value > 3 * base), max(means))
    chosen = max((load for load in means if load <= 0.9 * saturation + 1e-9), default=min(means))
    found = [of_failures(where(able, share=share), "load").get(chosen, []) for share in SHARES]
    return found, f"at {chosen:g} of a link, {chosen / saturation:.0%} of saturation at {saturation:g}"
