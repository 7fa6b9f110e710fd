"""Turns of clients that are threads: links never shared, frames never mixed, a client that fails lets the others go
on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from sfio_emu.adapters.peers.group_server import GroupServer
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.errors import PeerError
from testbed.bulk.coordinator import Circuit
from testbed.striping.emulated.admission import ClientTurns, TransferAdmission
from testbed.striping.plan import StripingPlan
from testbed.striping.workload import striping_plan
from topologies import load_network


class FakeSwitchswitchboard:
    """Switches that confirm at once, and check that circuits which stand at the same time share no link."""

    def __init__(self) -> None:
        self.files: dict[int, int] = {}
        self.changing = False
        self.standing: dict[int, Circuit] = {}
        self.shared: list[tuple[int, int]] = []

    def start_change(self, set_up: Iterable[Circuit], tear_down: Iterable[Circuit]) -> None:
        for circuit in tear_down:
            self.standing.pop(circuit.transfer, None)
        for circuit in set_up:
            for number, other in self.standing.items():
                if set(other.path) & set(circuit.path):
                    self.shared.append((number, circuit.transfer))
            self.standing[circuit.transfer] = circuit

    def wait(self) -> None:
        return


def plan(schedule: str) -> StripingPlan:
    options: dict[str, Any] = {"scheduling": schedule, "switching": "circuit", "file_bytes": 36_000}
    network = load_network("swiss-t1:allocation=2-2-0-0-2-0-0-0")
    return striping_plan(network, 6, 6, **options)


def carried(
    chosen: StripingPlan, failing: str = ""
) -> tuple[FakeSwitchswitchboard, list[tuple[str, str, float, float]], list[str]]:
    """Every client goes through its hosts; (source, sink, from, to) of every turn, and what went wrong."""
    switchboard, turns, errors = (
        FakeSwitchswitchboard(),
        list[tuple[str, str, float, float]](),
        list[str](),
    )
    with TransferAdmission(chosen.bulk_plan(), switchboard, stall_s=5.0) as admission:

        def act(source: str) -> None:
            sinks = [
                chosen.transfers[i].sink
                for f in chosen.frames
                for i in f
                if chosen.transfers[i].source == source
            ]
            own = ClientTurns(lambda: admission, source, sinks, lambda host: None)
            for hosts in own.order(list(reversed(sinks)), "write"):
                try:
                    with own.acquire(hosts[0], 1000, "write"):
                        began = time.monotonic()
                        time.sleep(0.002)
                        turns.append((source, hosts[0], began, time.monotonic()))
                        if source == failing:
                            raise PeerError(hosts[0], "gone")
                except PeerError as error:
                    errors.append(str(error))

        threads = [
            threading.Thread(target=act, args=(source,)) for source in chosen.placement.compute
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        assert not any(thread.is_alive() for thread in threads)
    return switchboard, turns, errors


@pytest.mark.parametrize("schedule", ["liquid", "none"])
def test_every_transfer_has_one_turn_and_no_two_share_a_link(schedule: str) -> None:
    chosen = plan(schedule)
    switchboard, turns, errors = carried(chosen)
    assert errors == [] and switchboard.shared == []
    assert sorted((a, b) for a, b, *_ in turns) == sorted(
        (t.source, t.sink) for t in chosen.transfers
    )
    paths = {(t.source, t.sink): set(t.path) for t in chosen.transfers}
    for number, (a, b, began, ended) in enumerate(turns):
        for c, d, other_began, other_ended in turns[:number]:
            if began < other_ended and other_began < ended:
                assert not paths[a, b] & paths[c, d], f"{a}->{b} and {c}->{d} at the same time"
    assert not switchboard.standing, "all circuits are taken away at the end"


def test_time_frames_of_a_schedule_do_not_mix() -> None:
    chosen = plan("liquid")
    _, turns, _ = carried(chosen)
    when = {(a, b): (began, ended) for a, b, began, ended in turns}
    spans = [
        [when[chosen.transfers[i].source, chosen.transfers[i].sink] for i in frame]
        for frame in chosen.frames
    ]
    for earlier, later in itertools.pairwise(spans):
        assert max(end for _, end in earlier) <= min(begin for begin, _ in later)


def test_a_client_that_fails_gives_its_links_back() -> None:
    _, turns, errors = carried(plan("none"), failing="t0")
    assert len(turns) == 36 and len(errors) == 6


def test_thread_group_gathers_items_and_breaks_if_one_is_missing(
    tmp_path: Path,
) -> None:
    server = GroupServer(f"unix:{tmp_path}/group", 3)
    found: dict[int, list[bytes]] = {}
    lost: list[str] = []

    def act(rank: int) -> None:
        member = SocketGroup.join(server.address, rank, 3, 30)
        found[rank] = member.all_gather(bytes([rank]))
        if rank == 2:
            member.close()
            return
        try:
            member.barrier()
        except PeerError as error:
            lost.append(str(error))
        member.close()

    threads = [threading.Thread(target=act, args=(rank,)) for rank in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert found == {rank: [b"\x00", b"\x01", b"\x02"] for rank in range(3)}
    server.close()
    assert len(lost) == 2 and "rank 2 left the process group" in lost[0]
