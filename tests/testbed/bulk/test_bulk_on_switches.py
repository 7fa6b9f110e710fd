"""Bulk transfers on real switches: complete and verified, dropped without a circuit, a receiver that dies, a link that
is cut."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.emulation
NETWORK, SIZE = "swiss-t1:allocation=1-1-0-0-1-0-0-0", 100_000


def carried(
    switchings: list[str], store: str | None, options: dict[str, Any]
) -> list[dict[str, Any]]:
    """Inside a sandbox: the run of each switching on one network, as its row and what the switches say."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric
    from testbed.bulk.facts import BulkFacts
    from testbed.bulk.judgement import judge_bulk
    from testbed.bulk.plan import KilledProcess
    from testbed.bulk.workload import bulk_plan
    from testbed.faults.fault import Fault

    killed = tuple(KilledProcess(node=node, at_s=at) for node, at in options.pop("killed", []))
    faults = tuple(
        Fault(link=tuple(link), kind="down", start_s=at, stop_s=60.0)
        for link, at in options.pop("cut", [])
    )
    network, told = options.pop("network", NETWORK), []
    asked = {
        "message_bytes": options.pop("size", SIZE),
        "kill": killed,
        "faults": faults,
        **options,
    }
    with EmulatedBulkFabric(
        store=None if store is None else Path(store), calibrate=False
    ) as fabric:
        for switching in switchings:
            plan = bulk_plan(network, switching=switching, **asked)  # type: ignore[arg-type]
            run = fabric.run(plan)
            told.append(
                {
                    **judge_bulk(plan, run).rows[0],
                    "by_switch": dict(run.dropped),
                    "counter_error": BulkFacts(plan, run).counter_error[0],
                    "paths": [[f"{a}->{b}" for a, b, _ in r.path] for r in run.transfers],
                    "deliveries": [r.deliveries for r in run.transfers],
                    "lost": [f"{a}->{b}" for a, b, _ in run.lost_links],
                }
            )
    return told


def test_each_message_arrives_once_in_both_switchings_as_counters_confirm(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        circuit, packet = sandboxed(
            carried, ["circuit", "packet"], None, {"inject_packets": 30, "size": 1_000_000}
        )
        for row in (circuit, packet):
            assert row["failure"] is None
            assert row["deliveries"] == [1] * 9
        assert circuit["injected_packets"] == 30 <= circuit["dropped_packets"]
        assert max(circuit["by_switch"].values()) >= 30, (
            "all injected packets are one sender's and end at its switch"
        )
        assert circuit["rule_changes"] == circuit["frames"] + 1
        assert packet["rule_changes"] == 0 and packet["dropped_packets"] == 0
        own = circuit["dropped_packets"] - 30
        if own > 9 * 112 * 3 // 100:
            return (
                f"{own} of the messages' own 9 x 112 packets were dropped, limit three in a hundred"
            )
        error = circuit["counter_error"]
        return None if error < 0.06 else f"a link's bytes are {error:.1%} off the schedule"

    timely(run)


def test_parts_of_a_message_take_routes_of_their_own_in_both_switchings(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        options = {"network": "ring:4", "parts": 2, "size": 1_000_000, "pattern": "h0:h2,h2:h0"}
        rows = sandboxed(carried, ["circuit", "packet"], None, options)
        for row in rows:
            assert row["failure"] is None and row["deliveries"] == [1] * 4 and row["parts"] == 2
            assert {path[1] for path in row["paths"]} == {"s0->s1", "s0->s3", "s2->s1", "s2->s3"}
            assert row["bytes"] == 2_000_000
        wrong = [row["counter_error"] for row in rows if row["counter_error"] > 0.06]
        return f"a link's bytes are {wrong} off the schedule" if wrong else None

    timely(run)


def left_behind() -> list[int]:
    """Inside a sandbox: TCP sockets of all hosts in the run and after it (lines of the kernel's table of each)."""
    from testbed.bulk.emulated import fabric as bulk_fabric
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric
    from testbed.bulk.workload import bulk_plan

    counts: list[int] = []

    def count(platform: Any) -> None:
        hosts, net = platform.wiring.hosts, platform.network
        looks = [
            net.run_in_host(h.name, ["cat", "/proc/net/tcp"], stdout=subprocess.PIPE) for h in hosts
        ]
        counts.append(sum(len(look.communicate()[0].splitlines()) - 1 for look in looks))

    measured = bulk_fabric._measured

    def counted(platform: Any, plan: Any, run: Any) -> Any:
        count(platform)
        return measured(platform, plan, run)

    bulk_fabric._measured = counted  # type: ignore[assignment]
    with EmulatedBulkFabric(calibrate=False) as fabric:
        fabric.run(bulk_plan(NETWORK, message_bytes=SIZE))
        assert fabric._network is not None
        count(fabric._network)
    return counts


@pytest.mark.unclocked
def test_connections_end_with_their_run_and_do_not_disturb_the_next(
    sandboxed: Callable[..., Any],
) -> None:
    in_the_run, after = sandboxed(left_behind)
    assert in_the_run >= 9 + 9 and after == 0


@pytest.mark.unclocked
def test_orders_that_congest_wait_for_circuits_and_still_arrive(
    sandboxed: Callable[..., Any],
) -> None:
    (row,) = sandboxed(carried, ["circuit"], None, {"scheduling": "identical", "barrier": False})
    assert row["failure"] is None and row["deliveries"] == [1] * 9
    assert row["ratio"] < 0.75, "three senders that all begin with one receiver cannot send at once"


def test_a_receiver_that_dies_is_named_and_leaves_no_partial_message(
    sandboxed: Callable[..., Any], timely: Callable[..., None], tmp_path: Path
) -> None:
    killed_s = 1.0  # in the last of three time frames of 0.4 s; on a slow machine in one before
    places = itertools.count()

    def run() -> str | None:
        store = tmp_path / str(next(places))
        store.mkdir()
        options = {"size": 1_000_000, "killed": [["r4", killed_s]]}
        (row,) = sandboxed(carried, ["circuit"], str(store), options)
        named = re.match(r"r4 died ([0-9.]+) s after the start", row["failure"] or "")
        assert named and float(named[1]) >= killed_s - 0.01, row["failure"]
        kept = sorted(store.iterdir())
        whole = [path for path in kept if path.suffix != ".part"]
        assert all(path.stat().st_size == 1_000_000 for path in whole)
        if (
            float(named[1]) > killed_s + 1
            or not 0 < len(whole) < 9
            or "in the middle of" not in row["failure"]
        ):
            return f"{row['failure']}, with {len(whole)} messages whole"
        assert row["failure"].endswith("->r4"), "the transfer under way is named"
        # the message under way stays what it is, a part; no byte of it has arrived where r4 dies between two messages
        return (
            None
            if len(whole) < len(kept)
            else f"{row['failure']}, before a byte of its message arrived"
        )

    timely(run)


def test_failed_link_removes_circuits_and_repeats_transfers_elsewhere(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        (row,) = sandboxed(
            carried, ["circuit"], None, {"size": 1_000_000, "cut": [[["s1", "s2", 0], 0.2]]}
        )
        assert row["failure"] is None and row["deliveries"] == [1] * 9
        assert "s1->s2" in row["lost"]
        over = sum("s1->s2" in path or "s2->s1" in path for path in row["paths"])
        return (
            None
            if over <= 2
            else f"{over} messages over the cut link, where two can arrive before it is cut"
        )

    timely(run)


@pytest.mark.unclocked
def test_a_cut_without_another_path_is_reported(sandboxed: Callable[..., Any]) -> None:
    (row,) = sandboxed(
        carried, ["circuit"], None, {"size": 500_000, "cut": [[["s1", "r0", 0], 0.05]]}
    )
    assert row["failure"] is not None and "s1->r0" in row["failure"] and "->r0" in row["failure"]
    assert row["messages_verified"] < 9
