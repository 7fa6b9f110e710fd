"""The verdict of a download on runs that were made in virtual time: it passes what is claimed, and neither of the
rivals."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fec.protocol.large_blocks import PREAMBLE_BYTES
from testbed.download.judgement import judge_download
from testbed.download.plan import FILL, FRAME_OVERHEAD_BYTES, DownloadMeasurements, DownloadPlan
from testbed.download.prediction import (
    alternatives,
    delays,
    loss_at,
    predict,
    symbols_needed,
    tolerances,
)
from testbed.download.simulated import simulate_download
from testbed.download.workload import download_plan
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.impaired_link import queue_bytes
from tests.helpers.drawn import drawn
from topologies import load_network
from topologies.network import Link, Network, Node

Run = tuple[DownloadPlan, DownloadMeasurements]


@cache
def downloaded(
    method: str = "capillary", *, constant_rate: bool = False, size: int = 4_000_000
) -> Run:
    plan = download_plan(
        "swiss-t1",
        "s1",
        "s6",
        file_bytes=size,
        last_mile_rate_bps=8e6,
        routing=method,
        constant_rate=constant_rate,
    )
    return plan, simulate_download(plan)


def outcomes(plan: DownloadPlan, run: DownloadMeasurements) -> list[str]:
    return [check.outcome for check in judge_download(plan, run).verdict.checks]


def test_a_rate_that_is_raised_passes_and_one_that_never_is_fails() -> None:
    assert outcomes(*downloaded()) == ["holds"] * 4
    plan, run = downloaded(constant_rate=True)
    assert outcomes(plan, run)[1] == "fails"
    assert run.seconds == pytest.approx(alternatives(plan).constant_rate_s, abs=0.02)


def test_a_run_that_takes_as_long_as_a_rival_fails() -> None:
    plan, run = downloaded()
    others = alternatives(plan)
    for seconds in (others.constant_rate_s, others.single_path_s, None):
        assert outcomes(plan, replace(run, seconds=seconds))[1] == "fails"
    assert outcomes(plan, replace(run, sent=round(others.always_highest_sent)))[2] == "fails"
    assert outcomes(plan, replace(run, verified=False))[0] == "fails"
    assert outcomes(plan, replace(run, received=symbols_needed(plan) - 1))[0] == "fails", (
        "too few to decode it from"
    )
    assert outcomes(plan, replace(run, received=1000 * run.received))[0] == "fails", (
        "more than were sent"
    )
    assert outcomes(plan, replace(run, received=0))[0] == "cannot-tell"


def test_slow_sender_or_dropped_packets_make_the_run_invalid() -> None:
    plan, run = downloaded()
    late = replace(run, sender_lag_s=0.15, seconds=(run.seconds or 0) + 0.15)
    dropped = replace(run, machine_drops=2, sent=run.sent + 2)
    held = replace(run, longest_s=0.2)
    for spoilt, why in (
        (late, "fell 150 ms behind"),
        (dropped, "2 packets were dropped"),
        (held, "lay 150 ms in"),
    ):
        verdict = judge_download(plan, spoilt).verdict
        assert verdict.exit_code == 4 and why in str(verdict.invalid)
    assert (
        judge_download(plan, replace(run, sender_lag_s=0.02, longest_s=0.1)).verdict.exit_code == 0
    )


def test_single_path_waits_as_predicted_unlike_an_undisturbed_one() -> None:
    plan, run = downloaded("single")
    assert outcomes(plan, run) == ["holds"] * 4
    assert predict(plan).outage_s > 2
    assert outcomes(plan, replace(run, seconds=alternatives(plan).undisturbed_s))[1] == "fails"


def test_a_file_too_small_to_tell_the_rates_apart_does_not_pass() -> None:
    plan, run = downloaded(size=400_000)
    assert outcomes(plan, run)[1] == "cannot-tell"
    assert judge_download(plan, run).verdict.exit_code == 5


def test_duration_is_judged_without_failures_although_no_rival_exists() -> None:
    plan = download_plan(
        "ring:4", "s0", "s2", file_bytes=1_000_000, last_mile_rate_bps=8e6, faults=()
    )
    run = simulate_download(plan)
    assert outcomes(plan, run) == ["holds"] * 3
    assert run.seconds is not None
    assert outcomes(plan, replace(run, seconds=1.5 * run.seconds))[1] == "fails"


def test_a_way_that_is_never_there_again_is_refused() -> None:
    with pytest.raises(InputError, match="end a fault earlier"):
        download_plan(
            "ring:4",
            "s0",
            "s2",
            file_bytes=400_000,
            last_mile_rate_bps=8e6,
            routing="single",
            faults=(Fault(link=("s0", "s1", 0)),),
        )


def test_a_cut_cable_loses_what_its_other_direction_carries() -> None:
    plan, _ = downloaded()
    (fault,) = plan.faults
    reverse = Fault(
        link=(fault.link[1], fault.link[0], 0), start_s=fault.start_s, stop_s=fault.stop_s
    )
    assert (
        loss_at(replace(plan, faults=(reverse,)), fault.start_s)
        == loss_at(plan, fault.start_s)
        == 0.25
    )
    one_way = replace(reverse, direction="forward")
    assert loss_at(replace(plan, faults=(one_way,)), fault.start_s) == 0


def test_a_fault_names_its_parallel_link() -> None:
    hosts = tuple(Node(id=name, kind="switch") for name in ("a->b", "c"))
    links = tuple(
        Link(source=a, target=b, key=k) for a, b in (("a->b", "c"), ("c", "a->b")) for k in (0, 1)
    )
    network = Network(name="two cables", nodes=hosts, links=links)
    fault = Fault(link=("a->b", "c", 1), start_s=0.1, stop_s=0.2)
    plan = download_plan(
        network, "a->b", "c", file_bytes=200_000, last_mile_rate_bps=4e6, faults=(fault,)
    )
    run = simulate_download(plan)
    document = judge_download(plan, run).document
    assert [one["link"] for one in document["faults"]] == ['"a->b"->c#1']


@drawn(12)
@given(
    network=st.sampled_from(["ring:3", "ring:5", "torus:3x3", "swiss-t1"]),
    delays_s=st.lists(st.sampled_from([0.0, 0.001, 0.01, 0.05, 0.3]), min_size=1, max_size=4),
    size=st.sampled_from([1, 3_000, 60_000, 400_000]),
    last_mile_rate_bps=st.sampled_from([1e6, 8e6]),
)
def test_delays_of_links_are_in_the_prediction(
    network: str, delays_s: list[float], size: int, last_mile_rate_bps: float
) -> None:
    plain = load_network(network)
    delay_of = {frozenset(k.id[:2]): delays_s[n % len(delays_s)] for n, k in enumerate(plain.links)}
    links = tuple(replace(k, delay_s=delay_of[frozenset(k.id[:2])]) for k in plain.links)
    switches = [node.id for node in plain.nodes if node.kind == "switch"]
    plan = download_plan(
        replace(plain, links=links),
        switches[0],
        switches[-1],
        file_bytes=size,
        last_mile_rate_bps=last_mile_rate_bps,
        faults=(),
    )
    assert "fails" not in outcomes(
        plan, simulate_download(plan)
    )  # a file of a few packets may not tell its rivals apart


def test_packets_of_a_short_path_do_not_wait_for_those_of_a_long_one() -> None:
    plan = download_plan(
        "ring:3,delay_s=0.3", "s1", "s2", file_bytes=20_000, last_mile_rate_bps=8e6, faults=()
    )
    run = simulate_download(plan)
    assert run.arrivals_s[0] == pytest.approx(0.3, abs=0.01)
    assert run.counters["queue_drops"] == 0


def test_a_failure_on_links_with_delays_is_answered_a_round_trip_later() -> None:
    plan = download_plan(
        "torus:3x3,delay_s=0.02", "s0_0", "s1_1", file_bytes=6_000_000, last_mile_rate_bps=8e6
    )
    assert outcomes(plan, simulate_download(plan)) == ["holds"] * 4


@pytest.mark.parametrize(
    ("last_mile_rate_bps", "works"), [(20e6, True), (50e6, False), (1e9, False)]
)
def test_last_kilometre_faster_than_the_links_is_refused_with_numbers(
    last_mile_rate_bps: float, works: bool
) -> None:
    network = load_network("ring:4,capacity_bps=10000000")
    with (
        nullcontext()
        if works
        else pytest.raises(InputError, match=r"Mbit/s on s0->s\d, which carries 10; lower")
    ):
        download_plan(
            network,
            "s0",
            "s2",
            file_bytes=100_000,
            last_mile_rate_bps=last_mile_rate_bps,
            faults=(),
        )


def with_delay(network: str, **delays_s: float) -> Network:
    """Links with these delays by their ends' names, joined, in either direction."""
    plain = load_network(network)
    links = tuple(
        replace(k, delay_s=delays_s.get("".join(sorted(k.id[:2])), 0.0)) for k in plain.links
    )
    return replace(plain, links=links)


def test_delays_are_mean_spread_and_round_trip() -> None:
    network = with_delay(
        "ring:3", s1s2=0.3, s0s1=0.1, s0s2=0.5
    )  # half of the labels 0.3 s, half 0.6 s
    plan = download_plan(network, "s1", "s2", file_bytes=100_000, last_mile_rate_bps=8e6, faults=())
    assert delays(plan) == pytest.approx((0.45, 0.3, 0.75))
    assert predict(plan).seconds - symbols_needed(
        plan
    ) / plan.parameters.arrival_pps == pytest.approx(0.45)


def test_symbols_are_the_files_and_its_preambles_rounded_up() -> None:
    plan, _ = downloaded()
    size = plan.parameters.symbol_bytes
    found = [
        symbols_needed(replace(plan, file_bytes=n * size - PREAMBLE_BYTES + more))
        for n in (1, 7)
        for more in (0, 1)
    ]
    assert found == [1, 2, 7, 8]


def test_losses_on_one_path_multiply_and_end_with_their_faults() -> None:
    plan, _ = downloaded("single")
    (path,) = plan.forward.paths
    first, second = (plan.network.links[index].id for index in path.links[:2])
    half = Fault(link=first, kind="loss", loss_fraction=0.5, start_s=1.0, stop_s=3.0)
    tenth = Fault(link=second, kind="loss", loss_fraction=0.1, start_s=2.0, stop_s=4.0)
    both = replace(plan, faults=(half, tenth))
    losses = {0.99: 0.0, 1.0: 0.5, 1.99: 0.5, 2.0: 0.55, 2.99: 0.55, 3.0: 0.1, 3.99: 0.1, 4.0: 0.0}
    assert {at: round(loss_at(both, at), 9) for at in losses} == losses


def test_the_prediction_by_hand_of_a_path_that_loses_a_tenth_and_then_all() -> None:
    """A second at the rate requested, one at a ninth more (as much arrives), one of nothing, then the rest."""
    plan, _ = downloaded("single")
    link = plan.network.links[plan.forward.paths[0].links[0]].id
    tenth = Fault(link=link, kind="loss", loss_fraction=0.1, start_s=1.0, stop_s=2.0)
    dead = Fault(link=link, start_s=2.0, stop_s=3.0)
    both = replace(plan, faults=(tenth, dead))
    pace, need = plan.parameters.arrival_pps, symbols_needed(plan)
    ideal, others = predict(both), alternatives(both)
    forward_s, _, round_s = delays(plan)
    assert ideal.seconds == pytest.approx(need / pace + 1.0 + forward_s)
    assert ideal.sent == pytest.approx(need + pace / 0.9 + pace * round_s)
    assert ideal.outage_s == pytest.approx(1.0)
    assert others.undisturbed_s == pytest.approx(need / pace + forward_s)
    assert others.constant_rate_s == pytest.approx(need / pace + 1.1 + forward_s)
    assert others.single_path_s == pytest.approx(ideal.seconds)
    assert others.nearest(ideal.seconds) == (
        others.constant_rate_s,
        "a sender that never raises its rate",
    )
    dead_only = replace(plan, faults=(dead,))
    expected_s = predict(dead_only).seconds
    assert alternatives(dead_only).nearest(expected_s)[1] == "a download that no failure disturbs"
    calm = replace(plan, faults=())
    assert alternatives(calm).nearest(predict(calm).seconds)[0] is None


def test_a_highest_rate_fills_the_last_mile_and_no_more() -> None:
    plan, _ = downloaded()
    p, need = plan.parameters, symbols_needed(plan)
    _, _, round_s = delays(plan)
    calm = replace(plan, faults=())
    arriving = p.arrival_pps / FILL
    assert alternatives(calm).always_highest_sent == pytest.approx(
        p.max_pps * (need / arriving + round_s)
    )
    never = replace(plan, faults=(Fault(link=plan.last_link, direction="forward"),))
    assert predict(never).seconds == alternatives(never).constant_rate_s == float("inf")


def test_half_of_the_durations_tolerance_may_be_lag_or_time_in_switches() -> None:
    plan, run = downloaded()
    slack_s, (forward_s, spread_s, _) = tolerances(plan)[0], delays(plan)
    queue_s = queue_bytes(plan.last_mile_rate_bps) * 8 / plan.last_mile_rate_bps
    usual_s = forward_s + spread_s + queue_s
    for share, valid in ((0.49, True), (0.51, False)):
        for spoilt in (
            replace(run, sender_lag_s=share * slack_s, longest_s=0.0),
            replace(run, longest_s=usual_s + share * slack_s),
        ):
            assert (judge_download(plan, spoilt).verdict.invalid is None) == valid
    delayed = replace(
        plan,
        faults=(
            *plan.faults,
            Fault(link=plan.last_link, kind="impaired", impairments="delay:0.005"),
        ),
    )
    assert judge_download(delayed, replace(run, longest_s=9.0)).verdict.invalid is None, (
        "on purpose"
    )


def test_credible_packet_counts_range_from_needed_to_twice_sent() -> None:
    plan, run = downloaded()
    need = symbols_needed(plan)
    for received, outcome in (
        (need, "holds"),
        (need - 1, "fails"),
        (2 * run.sent, "holds"),
        (2 * run.sent + 1, "fails"),
    ):
        assert outcomes(plan, replace(run, received=received))[0] == outcome
    few = judge_download(plan, replace(run, received=need - 1)).verdict.checks[0]
    assert (few.predicted, few.measured, "too few or too many" in few.detail) == (
        plan.file_bytes,
        0.0,
        True,
    )


def test_the_document_and_the_row_by_hand() -> None:
    plan, run = downloaded()
    assert run.seconds is not None
    document, (row,) = judge_download(plan, run).document, judge_download(plan, run).stored
    assert document["goodput_bps"] == pytest.approx(8 * 4_000_000 / run.seconds)
    assert document["goodput_ratio"] == pytest.approx(document["goodput_bps"] / 8e6)
    assert document["packets"]["received"] == run.received
    assert (row["drawn_s"], row["measured_s"], "verdict" in row) == (
        run.seconds,
        run.seconds,
        False,
    )
    assert row["predicted_s"] == predict(plan).seconds
    frame = FRAME_OVERHEAD_BYTES + plan.parameters.symbol_bytes
    assert row["last_kilometre_pps"] == pytest.approx(8e6 / 8 / frame)
    assert sum(row["arrivals_pps"]) * run.seconds / len(row["arrivals_pps"]) == pytest.approx(
        len(run.arrivals_s)
    )
    never = judge_download(plan, replace(run, seconds=None, arrivals_s=(0.25, 0.5)))
    assert never.document["goodput_bps"] == never.document["goodput_ratio"] == 0
    (row,) = never.stored
    assert (row["drawn_s"], row["measured_s"]) == (
        0.5,
        None,
    ) and "it never was" in never.verdict.checks[1].detail
    (row,) = judge_download(plan, replace(run, seconds=None, arrivals_s=())).stored
    assert (row["drawn_s"], row["arrivals_pps"]) == (0.0, [])
