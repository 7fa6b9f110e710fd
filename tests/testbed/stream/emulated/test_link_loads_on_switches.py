"""Link loads of two streams by the switches' own counters: a splitting that is not the predicted one is found out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.emulation


def ecmp_where_capillary_is_predicted() -> dict[str, list[float]]:
    """Packets a second on each link: predicted for capillary routing, for ECMP, and counted while the switches split by
    ECMP."""
    from testbed.routing.label_split.spraying import spray
    from testbed.routing.methods import route_by_name
    from testbed.stream.options import StreamOptions
    from testbed.stream.planning import build_together
    from tests.helpers.link_counts import measured_rates, streams_with_link_counts
    from tests.helpers.link_rates import link_rates

    ends = (("s1", "s6"), ("s4", "s7"))
    stream: dict[str, Any] = {
        "rate_pps": 250,
        "symbol_bytes": 1000,
        "playback_s": 0.5,
        "duration_s": 4.0,
    }

    def planned(method: str) -> Any:
        return build_together(
            [StreamOptions("swiss-t1", a, b, method=method, faults=(), **stream) for a, b in ends]
        )

    plans, others = planned("capillary"), planned("ecmp")
    installed = [spray(route_by_name(plans[0].network, *pair, "ecmp")) for pair in ends]
    _, samples = streams_with_link_counts(plans, installed)
    capillary, ecmp = link_rates(plans, [22, 22]), link_rates(others, [22, 22])
    measured = measured_rates(samples, (1.0, 3.4), plans)
    return {
        "capillary": list(capillary.values()),
        "ecmp": [ecmp[link] for link in capillary],
        "measured": [measured[link] for link in capillary],
    }


def test_counters_tell_the_installed_splitting_from_the_predicted_one(
    sandboxed: Callable[..., Any],
) -> None:
    found = sandboxed(ecmp_where_capillary_is_predicted)
    top = max(found["capillary"])

    def worst(method: str) -> float:
        return float(
            max(abs(a - b) for a, b in zip(found[method], found["measured"], strict=True)) / top
        )

    assert worst("ecmp") < 0.1
    assert worst("capillary") > 0.4
