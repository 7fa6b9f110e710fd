"""Bulk transfers and striped files whose paths begin at one of several cables, lead through hosts or over cables
between hosts: whole, once, over the planned links, on both fabrics."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.bulk.workload import bulk_plan
from testbed.errors import InputError
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, run
from topologies.files.formats import write_network_file
from topologies.network import Link, Network, Node

NETWORKS = {
    "a host on two switches, two routers behind one": (
        "a-x r-x q-x r-y q-y b-y c-x c-y",
        "q r",
        "a:b,b:c,c:a",
    ),
    "three routers without a switch": ("p-r r-s s-t r-t t-u s-v", "r s t", "p:u,u:v,v:p"),
    "a mesh of hosts": ("a-b a-c b-c", "", "a:b,b:c,c:a"),
}


def network_of(cables: str, forwarding: str) -> Network:
    pairs = [tuple(one.split("-")) for one in cables.split()]
    nodes = [
        Node(
            id=n,
            kind="switch" if n in "xy" else "host",
            attributes={"forwarding": True} if n in forwarding else {},
        )
        for n in dict.fromkeys(end for pair in pairs for end in pair)
    ]
    links = tuple(Link(source=s, target=t) for a, b in pairs for s, t in ((a, b), (b, a)))
    return Network(name=cables, nodes=tuple(nodes), links=links)


def plan_of(name: str, switching: str, **options: Any) -> Any:
    cables, forwarding, pattern = NETWORKS[name]
    asked = {"link_rate_bps": 4e6, "message_bytes": 200_000, "inject_packets": 20, **options}
    return bulk_plan(network_of(cables, forwarding), pattern=pattern, switching=switching, **asked)  # type: ignore[arg-type]


def carried(name: str) -> list[dict[str, Any]]:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    told = []
    with EmulatedBulkFabric(calibrate=False) as fabric:
        for switching in ("circuit", "packet"):
            plan = plan_of(name, switching)
            run = fabric.run(plan)
            planned = {link for transfer in plan.transfers for link in transfer.path}
            filled = {link for link, count in run.links.items() if count.bytes > 100_000}
            told.append(
                {
                    "failure": run.failure,
                    "deliveries": [record.deliveries for record in run.transfers],
                    "injected": [
                        run.injected,
                        plan.injected,
                        sum(run.dropped.values()) >= run.injected,
                    ],
                    "as planned": filled == planned,
                }
            )
    return told


@pytest.mark.emulation
@pytest.mark.parametrize("name", NETWORKS)
def test_every_message_arrives_once_over_the_planned_links(
    name: str, sandboxed: Callable[..., Any]
) -> None:
    injected = 0 if "mesh" in name or "without" in name else 20
    circuit, packet = sandboxed(carried, name)
    for one in (circuit, packet):
        assert one["failure"] is None
        assert one["deliveries"] == [1, 1, 1]
        assert one["as planned"]
    assert circuit["injected"] == [injected, injected, True] and packet["injected"] == [0, 0, True]


def sent_again() -> list[dict[str, int]]:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    plan = plan_of(
        "three routers without a switch",
        "circuit",
        link_rate_bps=2e6,
        message_bytes=300_000,
        inject_packets=0,
    )
    told = []
    with EmulatedBulkFabric(calibrate=False) as fabric:
        for _ in range(2):
            run = fabric.run(plan)
            dropped = sum(link.queue_drops for link in run.links.values())
            timeouts = sum(again.timeouts for again in run.retransmitted.values())
            told.append(
                {
                    "delivered": sum(r.deliveries for r in run.transfers),
                    "drops": dropped,
                    "timeouts": timeouts,
                }
            )
    return told


@pytest.mark.emulation
def test_no_circuit_over_a_slow_cable_fills_its_own_queue(sandboxed: Callable[..., Any]) -> None:
    """Neither a packet dropped by a sender's own cable nor one repeated because its acknowledgement waited there: with
    packets of 36 ms, and as many of them as TCP likes, each run had the one or the other."""
    assert sandboxed(sent_again) == [{"delivered": 3, "drops": 0, "timeouts": 0}] * 2


@pytest.mark.parametrize("name", NETWORKS)
def test_the_simulator_delivers_the_same(name: str) -> None:
    from testbed.bulk.simulated import SimulatedBulkFabric

    run = SimulatedBulkFabric().run(plan_of(name, "circuit"))
    assert run.failure is None and [record.deliveries for record in run.transfers] == [1, 1, 1]


def test_a_cut_that_no_switch_would_report_is_refused() -> None:
    with pytest.raises(InputError, match="faults: a->b connects two hosts, and no switch would"):
        plan_of("a mesh of hosts", "circuit", faults="a->b@1-2")


def striped(root: str) -> list[list[Any]]:
    from testbed.striping.emulated.fabric import emulate_striping
    from testbed.striping.workload import striping_plan

    told = []
    for name in NETWORKS:
        cables, forwarding, _ = NETWORKS[name]
        plan = striping_plan(
            network_of(cables, forwarding), 1, 2, file_bytes=200_000, link_rate_bps=4e6
        )
        run = emulate_striping(plan, Path(root) / name.replace(" ", "-"))
        told.append([[record.verified, list(record.errors)] for record in run.operations])
    return told


@pytest.mark.emulation
def test_striped_files_are_whole(tmp_path: Path, sandboxed: Callable[..., Any]) -> None:
    assert sandboxed(striped, str(tmp_path)) == [[[True, []]]] * len(NETWORKS)


@pytest.mark.emulation
@pytest.mark.unclocked
@pytest.mark.parametrize("name", NETWORKS)
def test_programs_with_striped_files_run_there(name: str, tmp_path: Path) -> None:
    write_network_file(network_of(*NETWORKS[name][:2]), tmp_path / "lab.json")
    nodes = ["--compute-nodes", "1", "--io-nodes", "2", "--subfile-dir", "files"]
    words = [*TESTBED, "run", "lab.json", *nodes, "--", "python", str(ROOT / "examples/hello.py")]
    done = run(words, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(p.read_bytes() for p in (tmp_path / "files").rglob("*.dat")) == [
        b" Worl",
        b"Hellod",
    ]


def test_an_alternative_path_begins_at_the_other_cable() -> None:
    plan = plan_of("a host on two switches, two routers behind one", "circuit")
    (moved,) = [one for one in plan.transfers if one.source == "c"]
    assert moved.path[0] != moved.alternative[0]
