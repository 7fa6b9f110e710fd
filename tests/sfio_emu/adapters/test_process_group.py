"""The group of processes: rounds are complete and in order, and whoever is lost is named, never waited for."""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sfio_emu.adapters.peers.group_server import (
    AMOUNT,
    HELLO,
    Frame,
    GroupError,
    GroupServer,
    Kind,
    failure,
)
from sfio_emu.adapters.process_group import SocketGroup
from sfio_emu.errors import UsageError
from tests.helpers.drawn import drawn


def in_every_rank(address: str, size: int, act: Callable[[SocketGroup], object]) -> list[object]:
    def one(rank: int) -> object:
        with SocketGroup.join(address, rank, size, 10) as group:
            return act(group)

    with ThreadPoolExecutor(size) as pool:
        return [future.result() for future in [pool.submit(one, rank) for rank in range(size)]]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_items_come_back_in_the_order_of_ranks(tmp_path: Path, scheme: str, size: int) -> None:
    address = f"unix:{tmp_path}/group" if scheme == "unix" else "tcp:127.0.0.1:0"
    with GroupServer(address, size) as server:

        def act(group: SocketGroup) -> object:
            group.barrier()
            rounds = [
                group.all_gather(f"{group.rank} {turn}".encode() * turn) for turn in range(20)
            ]
            group.barrier()
            return rounds

        expected = [
            [f"{rank} {turn}".encode() * turn for rank in range(size)] for turn in range(20)
        ]
        assert in_every_rank(server.address, size, act) == [expected] * size


def test_rank_0_coordinates_where_nobody_else_does(tmp_path: Path) -> None:
    for address in (f"unix:{tmp_path}/group", f"tcp:127.0.0.1:{free_port()}"):
        gathered = in_every_rank(address, 3, lambda group: group.all_gather(b"x" * group.rank))
        assert gathered == [[b"", b"x", b"xx"]] * 3
    assert not (tmp_path / "group").exists()


def test_a_socket_left_by_a_killed_process_is_taken_over(tmp_path: Path) -> None:
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(tmp_path / "group"))
    left.close()
    assert (
        in_every_rank(f"unix:{tmp_path}/group", 2, lambda group: group.all_gather(b""))
        == [[b"", b""]] * 2
    )


def test_large_items_pass(tmp_path: Path) -> None:
    item = os.urandom(5_000_000)
    with GroupServer(f"unix:{tmp_path}/group", 3) as server:
        gathered = in_every_rank(
            server.address, 3, lambda group: group.all_gather(item) == [item] * 3
        )
    assert gathered == [True] * 3


def test_additions_of_all_ranks_are_each_seen_once(tmp_path: Path) -> None:
    with GroupServer(f"unix:{tmp_path}/group", 4) as server:

        def act(group: SocketGroup) -> list[int]:
            seen = [group.fetch_add("pointer", 3) for _ in range(50)]
            group.barrier()
            assert (
                group.fetch_add("pointer", 0) == 600
                and group.fetch_add("other", -(group.rank + 1) * 0) == 0
            )
            return seen

        given = sorted(value for seen in in_every_rank(server.address, 4, act) for value in seen)  # type: ignore[attr-defined]
    assert given == list(range(0, 600, 3))


@contextmanager
def spoken_to(server: GroupServer) -> Iterator[socket.socket]:
    """A rank that says what it likes, and has joined a group of one."""
    with socket.socket(socket.AF_UNIX) as stream:
        stream.connect(server.address.removeprefix("unix:"))
        stream.sendall(Frame(Kind.HELLO, 0, HELLO.pack(1, 1000)).encode())
        assert stream.recv(4096) == Frame(Kind.WELCOME, 0).encode()
        yield stream


@pytest.mark.parametrize(
    ("frames", "said"),
    [
        ([Frame(Kind.ADD, 0, b"")], b"sent a malformed addition"),
        ([Frame(Kind.ADD, 0, b"12345678")], b"sent a malformed addition"),
        ([Frame(Kind.ADD, 0, AMOUNT.pack(2**63 - 1) + b"c")] * 2, b"sent a malformed addition"),
        ([Frame(Kind.WELCOME, 0)], b"sent a WELCOME that it may not send"),
    ],
)
def test_unexpected_message_ends_the_group(
    tmp_path: Path, frames: list[Frame], said: bytes
) -> None:
    with GroupServer(f"unix:{tmp_path}/group", 1) as server, spoken_to(server) as stream:
        stream.sendall(b"".join(frame.encode() for frame in frames))
        stream.settimeout(10)
        answer = b"".join(iter(lambda: stream.recv(4096), b""))
        assert answer.endswith(failure(f"rank 0 {said.decode()}", 0).encode())
        assert server.failed_rank == 0


def test_no_rank_leaves_a_barrier_before_the_last_has_come(tmp_path: Path) -> None:
    come: list[int] = []

    def act(group: SocketGroup) -> int:
        time.sleep(0.05 * group.rank)
        come.append(group.rank)
        group.barrier()
        return len(come)

    with GroupServer(f"unix:{tmp_path}/group", 4) as server:
        assert in_every_rank(server.address, 4, act) == [4] * 4


@pytest.mark.parametrize("scheme", ["unix", "tcp"])
def test_a_killed_rank_is_named_to_the_others_within_two_seconds(
    tmp_path: Path, scheme: str
) -> None:
    program = (
        "import sys, time; from sfio_emu.adapters.process_group import SocketGroup\n"
        "group = SocketGroup.join(sys.argv[1], 2, 3, 20); group.barrier(); print('in', flush=True); time.sleep(60)"
    )
    with GroupServer(
        f"unix:{tmp_path}/group" if scheme == "unix" else "tcp:127.0.0.1:0", 3
    ) as server:
        process = subprocess.Popen(
            [sys.executable, "-c", program, server.address], stdout=subprocess.PIPE
        )

        killed_at_s: list[float] = []

        def kill() -> None:
            killed_at_s.append(time.monotonic())
            process.kill()

        def act(rank: int) -> float:
            with SocketGroup.join(server.address, rank, 3, 20) as group:
                group.barrier()
                if rank == 0:
                    assert process.stdout is not None and process.stdout.readline() == b"in\n"
                    threading.Timer(0.1, kill).start()
                with pytest.raises(GroupError, match="rank 2 of the process group died") as caught:
                    group.barrier()
                told_at_s = time.monotonic()
                assert caught.value.rank == 2
                with pytest.raises(GroupError, match="rank 2"):
                    group.all_gather(b"and again")
                return told_at_s

        try:
            with ThreadPoolExecutor(2) as pool:
                told_at_s = list(pool.map(act, range(2)))
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()
    assert max(told_at_s) - killed_at_s[0] < 2


def test_a_rank_that_leaves_early_is_named(tmp_path: Path) -> None:
    def act(group: SocketGroup) -> str:
        if group.rank == 1:
            return "left"
        with pytest.raises(GroupError, match="rank 1 left") as caught:
            group.barrier()
        return str(caught.value)

    with GroupServer(f"unix:{tmp_path}/group", 3) as server:
        assert in_every_rank(server.address, 3, act)[1] == "left"


def test_whoever_never_joins_is_named(tmp_path: Path) -> None:
    with GroupServer(f"unix:{tmp_path}/group", 4) as server, ThreadPoolExecutor(2) as pool:
        waiting = [pool.submit(SocketGroup.join, server.address, rank, 4, 0.3) for rank in (0, 2)]
        for future in waiting:
            with pytest.raises(GroupError, match="rank 1, 3 of a group of 4 did not join"):
                future.result()


def test_nobody_at_the_address_is_said_in_time() -> None:
    start_s = time.monotonic()
    with pytest.raises(GroupError, match="rank 1 found no process group at tcp:"):
        SocketGroup.join(f"tcp:127.0.0.1:{free_port()}", 1, 2, 0.2)
    assert time.monotonic() - start_s < 10, "a limit of 0.2 s, on a machine that may be busy"


def test_the_end_of_the_coordinator_reaches_every_rank(tmp_path: Path) -> None:
    server = GroupServer(f"unix:{tmp_path}/group", 2)

    def act(group: SocketGroup) -> bool:
        group.barrier()
        if group.rank == 0:
            server.close()
        with pytest.raises(GroupError, match="coordinator"):
            group.barrier()
        return True

    assert in_every_rank(server.address, 2, act) == [True, True]


def test_ranks_in_different_calls_are_told_which(tmp_path: Path) -> None:
    def act(group: SocketGroup) -> bool:
        with pytest.raises(GroupError, match="every rank makes the same collective calls"):
            if group.rank == 0:
                group.barrier()
            else:
                group.all_gather(b"")
        return True

    with GroupServer(f"unix:{tmp_path}/group", 2) as server:
        assert in_every_rank(server.address, 2, act) == [True, True]


def test_a_second_process_of_the_same_rank_is_refused_and_harms_nobody(tmp_path: Path) -> None:
    def act(group: SocketGroup) -> bool:
        if group.rank == 1:
            with pytest.raises(GroupError, match="rank 1 joined twice"):
                SocketGroup.join(server.address, 1, 2, 5)
            with pytest.raises(GroupError, match="rank 0 says the group has 7 ranks"):
                SocketGroup.join(server.address, 0, 7, 5)
        return group.all_gather(b"") == [b"", b""]

    with GroupServer(f"unix:{tmp_path}/group", 2) as server:
        assert in_every_rank(server.address, 2, act) == [True, True]


def test_strangers_at_the_port_harm_nobody() -> None:
    with GroupServer("tcp:127.0.0.1:0", 2) as server:
        port = int(server.address.rpartition(":")[2])
        for noise in (b"GET / HTTP/1.1\r\n\r\n" * 5, b"SFG2\x01" + b"\xff" * 40, b""):
            with socket.create_connection(("127.0.0.1", port)) as stranger:
                stranger.sendall(noise)
        assert (
            in_every_rank(server.address, 2, lambda group: group.all_gather(b"1"))
            == [[b"1", b"1"]] * 2
        )


@pytest.mark.parametrize(
    "address", ["", "unix:", "tcp:host", "tcp:host:port", "tcp:host:70000", "udp:1.2.3.4:5"]
)
def test_an_address_that_cannot_be_is_the_callers_mistake(address: str) -> None:
    with pytest.raises(UsageError, match=r"unix:/path or tcp:host:port"):
        SocketGroup.join(address, 0, 1, 1)


@pytest.mark.parametrize(("rank", "size"), [(-1, 2), (2, 2), (0, 0)])
def test_a_rank_outside_the_group_is_the_callers_mistake(rank: int, size: int) -> None:
    with pytest.raises(UsageError):
        SocketGroup.join("unix:/nowhere", rank, size, 1)


def test_an_interrupted_call_ends_the_group_for_its_rank(tmp_path: Path) -> None:
    def act(group: SocketGroup) -> bool:
        with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(group, "_receive", _interrupt)
            group.barrier()
        with pytest.raises(GroupError, match="an earlier call was interrupted"):
            group.all_gather(b"")
        return True

    with GroupServer(f"unix:{tmp_path}/group", 1) as server:
        assert in_every_rank(server.address, 1, act) == [True]


def _interrupt(*_: object) -> bytes:
    raise KeyboardInterrupt


@drawn(60)
@given(size=st.integers(1, 5), rounds=st.integers(0, 4), data=st.data())
def test_rounds_complete_in_any_order_and_segmentation(
    size: int, rounds: int, data: st.DataObject
) -> None:
    orders = [data.draw(st.permutations(range(size))) for _ in range(rounds + 1)]
    steps = [data.draw(st.integers(1, 30)) for _ in range(size)]
    with (
        TemporaryDirectory() as folder,
        GroupServer(f"unix:{folder}/group", size),
        ExitStack() as stack,
    ):
        streams = [stack.enter_context(socket.socket(socket.AF_UNIX)) for _ in range(size)]
        for turn, order in enumerate(orders):
            for rank in order:
                frame = (
                    Frame(Kind.GATHER, rank, bytes([rank, turn]))
                    if turn
                    else Frame(Kind.HELLO, rank, HELLO.pack(size, 9000))
                )
                if not turn:
                    streams[rank].connect(f"{folder}/group")
                whole = frame.encode()
                for at in range(0, len(whole), steps[rank]):
                    streams[rank].sendall(whole[at : at + steps[rank]])
            for rank, stream in enumerate(streams):
                gathered = b"".join(
                    Frame(Kind.GATHERED, each, bytes([each, turn])).encode() for each in range(size)
                )
                due = gathered if turn else Frame(Kind.WELCOME, rank).encode()
                assert stream.recv(len(due), socket.MSG_WAITALL) == due
        lost = data.draw(st.integers(0, size - 1))
        streams[lost].close()
        told = failure(f"rank {lost} of the process group died or was disconnected", lost).encode()
        for rank, stream in enumerate(streams):
            assert rank == lost or stream.recv(len(told), socket.MSG_WAITALL) == told
