"""The coordinator and both switchings in virtual time: every message arrives once, circuits never share a link, cuts
are borne."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.bulk.calibration import concurrent_goodput
from testbed.bulk.coordinator import BulkCoordinator, ChangeCircuits, Finished, Send
from testbed.bulk.judgement import judge_bulk
from testbed.bulk.link_rates import at_rate
from testbed.bulk.plan import BulkPlan, Switching
from testbed.bulk.planning import transfers_of
from testbed.bulk.simulated import SimulatedBulkFabric, max_min_shares
from testbed.bulk.workload import bulk_plan
from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.scheduling.traffic.patterns import other_pairs
from tests.helpers.drawn import drawn
from topologies import load_network

RATE, SIZE = 1e6, 12_500
UNIT_S = SIZE * 8 / RATE


@cache
def transfers(name: str) -> tuple[Any, tuple[Any, ...]]:
    network = at_rate(load_network(name), RATE)
    return network, transfers_of(network, other_pairs(network))


def plan(
    name: str, frames: Any, switching: Switching = "circuit", barrier: bool = True, **more: Any
) -> BulkPlan:
    network, listed = transfers(name)
    return BulkPlan(
        network=network,
        transfers=listed,
        frames=tuple(tuple(f) for f in frames),
        method="given",
        switching=switching,
        barrier=barrier,
        message_bytes=SIZE,
        **more,
    )


@st.composite
def framed(draw: st.DrawFn, name: str) -> list[list[int]]:
    """The transfers of the network in any order, cut into frames anywhere: they may congest."""
    count = len(transfers(name)[1])
    order = draw(st.permutations(range(count)))
    edges = sorted(draw(st.sets(st.integers(1, count - 1), max_size=6)) | {0, count})
    return [order[a:b] for a, b in pairwise(edges)]


CUT = Fault(link=("s0_0_0", "s1_0_0", 0), start_s=0.1, direction="both")
SMALL = "swiss-t1:allocation=1-1-0-0-2-0-0-1"


@drawn(40)
@given(framed(SMALL), st.booleans(), st.sampled_from(["circuit", "packet"]))
def test_every_message_arrives_once_and_never_faster_than_the_bottleneck(
    frames: Any, barrier: bool, switching: Any
) -> None:
    asked = plan(SMALL, frames, switching, barrier)
    run = SimulatedBulkFabric().run(asked)
    assert run.failure is None
    assert [r.deliveries for r in run.transfers] == [1] * len(asked.transfers)
    assert run.seconds >= asked.bottleneck_load * UNIT_S * (1 - 1e-9)
    assert {link: count.bytes for link, count in run.links.items()} == pytest.approx(
        {link: load * SIZE for link, load in asked.loads.items()}
    )


@drawn(40)
@given(framed(SMALL), st.booleans())
def test_circuits_that_stand_at_one_time_share_no_link(frames: Any, barrier: bool) -> None:
    """Driven by hand: switches confirm and messages arrive in turn, one at a time."""
    coordinator = BulkCoordinator(plan(SMALL, frames, barrier=barrier))
    coordinator.start(0.0)
    standing: dict[int, Any] = {}
    sending: list[tuple[int, int]] = []
    changing, now, finished = False, 0.0, False
    while not finished:
        for action in coordinator.actions():
            if isinstance(action, ChangeCircuits):
                for circuit in action.tear_down:
                    del standing[circuit.transfer]
                standing |= {c.transfer: c for c in action.set_up}
                links = [link for c in standing.values() for link in c.path]
                assert len(links) == len(set(links))
                changing = True
            elif isinstance(action, Send):
                assert all(index in standing for index, _ in action.messages)
                sending += action.messages
            else:
                assert isinstance(action, Finished) and action.failure is None
                finished = True
        now += 1.0
        if finished:
            break
        if changing:
            changing = False
            coordinator.circuits_changed(now)
        else:
            coordinator.message_done(*sending.pop(0), True, now)
    assert not standing
    assert coordinator.done == len(coordinator.plan.transfers)


@drawn(15)
@given(st.integers(0, 10**6))
def test_rings_deadlock_are_told_and_still_deliver_everything(seed: int) -> None:
    asked = bulk_plan(
        "ring:6",
        scheduling="random",
        message_bytes=SIZE,
        barrier=False,
        seed=seed,
    )
    run = SimulatedBulkFabric().run(asked)
    assert run.failure is None and run.delivered == len(asked.transfers)


def test_run_without_retreat_ends_at_a_deadlock_and_names_the_cycle() -> None:
    asked = bulk_plan(
        "ring:6", scheduling="round-robin", message_bytes=SIZE, link_rate_bps=RATE, barrier=False
    )
    retreated = SimulatedBulkFabric().run(asked)
    failed = SimulatedBulkFabric(on_deadlock="fail").run(asked)
    if not retreated.deadlocks:
        pytest.skip("this order does not deadlock here")
    assert failed.failure is not None and "waits for" in failed.failure
    assert retreated.delivered == len(asked.transfers)


def test_a_cut_link_moves_its_transfers_to_the_other_path() -> None:
    network, listed = transfers("swiss-t1:allocation=2-2-0-0-0-0-0-0")
    count = len(listed)
    cut = Fault(
        link=("s1", "s2", 0), kind="down", start_s=1.5 * UNIT_S, stop_s=1e6, direction="both"
    )
    asked = plan(network.name, [[i] for i in range(count)], faults=(cut,))
    run = SimulatedBulkFabric().run(asked)
    assert run.failure is None and run.delivered == count
    moved = [r for r in run.transfers if r.path != listed[r.transfer].path]
    assert moved and all(
        ("s1", "s2", 0) not in r.path and ("s2", "s1", 0) not in r.path for r in moved
    )
    assert all(r.done_s is not None and r.done_s > cut.start_s for r in moved)


@pytest.mark.parametrize("seed", range(3))
def test_a_cut_at_any_moment_leaves_nobody_waiting(seed: int) -> None:
    """Messages of a frame end in any order, and the cut may find only the last of them on its way."""
    asked = bulk_plan(
        "hypercube:3", routing="balanced", message_bytes=SIZE, link_rate_bps=RATE, faults=(CUT,)
    )
    for moment in range(1, len(asked.transfers) + len(asked.frames)):
        carry_out_by_hand(asked, moment, Random(seed))


def carry_out_by_hand(asked: BulkPlan, moment: int, chance: Random) -> None:
    """Switches confirm and messages arrive in turn, one at a time; at the ``moment`` CUT goes down."""
    cut = {CUT.link, CUT.link[1::-1] + CUT.link[2:]}
    coordinator = BulkCoordinator(asked)
    coordinator.start(0.0)
    sending: dict[int, int] = {}
    changing, now = False, 0.0
    while not coordinator.over:
        for action in coordinator.actions():
            changing = changing or isinstance(action, ChangeCircuits)
            if isinstance(action, Send):
                sending |= dict(action.messages)
        now += 1.0
        if now == moment:
            lost = {n for n in sending if cut & set(coordinator.records()[n].path)}
            coordinator.on_link_failed([CUT.link], now)
            sending = {n: attempt for n, attempt in sending.items() if n not in lost}
        elif changing:
            changing = False
            coordinator.circuits_changed(now)
        else:
            assert sending, "every transfer that is left waits for another"
            number = chance.choice(sorted(sending))
            coordinator.message_done(number, sending.pop(number), True, now)
    assert coordinator.done == len(asked.transfers)


def test_a_cut_host_link_strands_its_transfers_and_names_them() -> None:
    network, listed = transfers("swiss-t1:allocation=2-2-0-0-0-0-0-0")
    cut = Fault(
        link=("s1", "r1", 0), kind="down", start_s=0.5 * UNIT_S, stop_s=1e6, direction="both"
    )
    for switching in ("circuit", "packet"):
        asked = plan(network.name, [range(len(listed))], switching, faults=(cut,))  # type: ignore[arg-type]
        run = SimulatedBulkFabric().run(asked)
        assert run.failure is not None and "s1->r1" in run.failure and "->r1" in run.failure
        assert run.delivered == sum(t.sink != "r1" for t in listed)
        assert not judge_bulk(asked, run).verdict.passed


def test_a_receiver_that_dies_ends_the_run_and_is_named() -> None:
    coordinator = BulkCoordinator(plan(SMALL, [range(25)]))
    coordinator.start(0.0)
    coordinator.actions()
    coordinator.circuits_changed(0.1)
    coordinator.on_endpoint_failed(["r0"], 2.0)
    (finished,) = [a for a in coordinator.actions() if isinstance(a, Finished)]
    assert finished.failure is not None and "r0 died 2.00 s after the start" in finished.failure


def test_a_run_in_which_nothing_arrives_ends_and_says_what_it_waited_for() -> None:
    coordinator = BulkCoordinator(plan(SMALL, [range(25)]), stall_s=5.0)
    coordinator.start(0.0)
    coordinator.advance(4.9)
    assert not coordinator.over
    coordinator.advance(coordinator.deadline_s())
    (finished,) = [a for a in coordinator.actions() if isinstance(a, Finished)]
    assert (
        finished.failure is not None
        and "no message arrived for 5 s" in finished.failure
        and "t0->" in finished.failure
    )


def test_damaged_message_is_repeated_over_its_circuit_at_most_five_times() -> None:
    coordinator = BulkCoordinator(plan(SMALL, [[i] for i in range(25)]))
    coordinator.start(0.0)
    coordinator.actions()
    coordinator.circuits_changed(0.1)
    for attempt in range(1, 6):
        assert coordinator.actions() == (Send(messages=((0, attempt),)),)
        coordinator.message_done(0, attempt, False, float(attempt))
    (finished,) = coordinator.actions()
    assert (
        isinstance(finished, Finished)
        and finished.failure is not None
        and "checksum" in finished.failure
    )


def test_a_late_word_of_an_earlier_attempt_changes_nothing() -> None:
    coordinator = BulkCoordinator(plan(SMALL, [[i] for i in range(25)]))
    coordinator.start(0.0)
    coordinator.actions()
    coordinator.circuits_changed(0.1)
    coordinator.connection_broke(0, 1, 0.2)
    coordinator.message_done(0, 1, True, 0.3)
    assert coordinator.done == 0
    coordinator.message_done(0, 2, True, 0.4)
    assert coordinator.done == 1


def test_calibration_together_uses_disjoint_paths() -> None:
    job = concurrent_goodput(plan(SMALL, [range(25)]))
    _, listed = transfers(SMALL)
    links = [link for i in job.transfers for link in listed[i].path]
    assert len(links) == len(set(links)) and len(job.transfers) >= 2


@pytest.mark.parametrize("frames", [[[0]], [[0, 0], range(1, 25)], [range(26)]])
def test_frames_that_are_no_partition_are_refused_and_name_the_transfer(frames: Any) -> None:
    with pytest.raises(InputError, match="transfer"):
        plan(SMALL, frames)


def test_packets_share_a_link_evenly_and_take_what_others_leave() -> None:
    a, b, c = ("a", "b", 0), ("b", "c", 0), ("c", "d", 0)
    shares = max_min_shares({1: [a, b], 2: [b], 3: [c, b], 4: [c]}, {a: 1.0, b: 9.0, c: 10.0})
    assert shares == {1: 1.0, 2: 4.0, 3: 4.0, 4: 6.0}


def test_the_same_plan_gives_the_same_run() -> None:
    asked = plan(SMALL, [range(25)], barrier=False)
    assert SimulatedBulkFabric().run(asked) == SimulatedBulkFabric().run(asked)
    assert replace(asked, switching="packet").loads == asked.loads
