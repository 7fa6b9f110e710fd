"""Runs over links that a process delays: they count where it was in time, and say so where it was not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testbed.emulation.network.impairments.relay import LaneReport
from testbed.errors import InvalidRunError
from testbed.machines.adapters.platform import timely
from testbed.machines.rpc import MachineState

IN_TIME = LaneReport(
    received=9, dropped=0, copies=0, refused=0, missed=0, late_s=0.001, latest_s=0.1, delay_s=0.01
)


class _Network:
    """Whose relay says the same after each run; ``begun``: runs that were announced to it."""

    def __init__(self, reports: dict[str, LaneReport]) -> None:
        self.reports, self.begun = reports, 0

    def forget_lateness(self) -> None:
        self.begun += 1

    def impairment_reports(self) -> dict[str, LaneReport]:
        return self.reports


class _Platform:
    def __init__(self, network: _Network) -> None:
        self._machine = MachineState(name="here")
        self._machine.objects["net"] = network

    def all(self, request: Callable[..., Any], *args: object) -> list[Any]:
        return [request(self._machine, *args)]


def _after(monkeypatch: pytest.MonkeyPatch, *reports: LaneReport) -> int:
    network = _Network({f"s{k}->s9 delay_s=0.01": one for k, one in enumerate(reports)})
    monkeypatch.setattr(
        "testbed.machines.adapters.rpc_network.network_of", lambda machine: machine.objects["net"]
    )
    with timely(_Platform(network)):  # type: ignore[arg-type]
        pass
    return network.begun


def test_a_run_whose_delays_were_in_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _after(monkeypatch, IN_TIME, replace(IN_TIME, late_s=0.0024)) == 1


@pytest.mark.parametrize(
    ("spoilt", "says"),
    [
        (
            {"late_s": 0.0031},
            r"s1->s9 delay_s=0.01: packets were sent on 3.1 ms late \(99 of 100; limit 2.5 ms\)",
        ),
        (
            {"missed": 3},
            "s1->s9 delay_s=0.01: 3 packets were lost because the process that delays them was full",
        ),
    ],
)
def test_a_run_whose_delays_were_late_or_lost_packets_is_invalid(
    spoilt: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidRunError, match=says):
        _after(monkeypatch, IN_TIME, replace(IN_TIME, **spoilt))


def test_impaired_links_without_delay_are_left_to_the_predictions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert _after(monkeypatch, replace(IN_TIME, late_s=1.0, delay_s=0.0)) == 1


@pytest.mark.emulation
def test_stream_over_delayed_links_is_emulated_and_keeps_delays() -> None:
    import testbed
    from testbed.emulation.machine.capabilities import link_delays

    if link_delays([0.02])[1] is None:
        pytest.skip("netem delays packets here")
    plan = testbed.stream_plan(
        "ring:3,delay_s=0.02", "s0", "s1", faults="none", duration_s=3, rate_pps=100
    )
    outcome = testbed.run(plan)
    assert outcome.fabric == "emulation"
    lanes = outcome.measurements.counters["impaired_links"]
    assert {f"{link.label} delay_s=0.02" for link in plan.network.links} == set(lanes)
    crossed = [lanes[f"s0->{to} delay_s=0.02"] for to in ("s1", "s2")]
    assert all(lane["received"] > 20 and lane["delay_s"] == 0.02 for lane in crossed)
    transit_s = outcome.measurements.deliveries.transit_s
    assert transit_s[transit_s == transit_s].mean() >= 0.0199
    assert (
        outcome.passed or outcome.verdict.invalid is not None
    )  # a busy machine says nothing against it
