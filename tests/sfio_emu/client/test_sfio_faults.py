"""What goes wrong with real listeners: deaths, full files, corruption, silence; no call hangs, each error says
where."""

from __future__ import annotations

import errno
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from sfio_emu import (
    ListenerLost,
    ProtocolError,
    RemoteFailure,
    Settings,
    StripedFile,
    UsageError,
    merror,
    use,
)
from sfio_emu.message_bodies import NONCE_BYTES, encode_open
from sfio_emu.wire import HEADER_BYTES
from tests.helpers.listeners import listener, proxy, session_of, small_disk


def test_killed_listener_is_named_and_its_data_is_on_disk(
    tmp_path: Path,
) -> None:
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (victim, second):
        file = StripedFile.open("p1/a;p2/a", 100, session=session_of(first, second))
        block = np.arange(100_000, dtype=np.uint8)
        acknowledged = 0
        threading.Timer(0.3, victim.kill).start()
        start_s = time.monotonic()
        with pytest.raises(ListenerLost, match="p2") as caught:
            while time.monotonic() < start_s + 20:
                file.pwrite(block, acknowledged * len(block))
                acknowledged += 1
        victim.wait()
        lost_s = time.monotonic() - start_s
        assert caught.value.host == "p2"
        assert lost_s < 0.3 + 2.0 + 1.0
        assert acknowledged > 0
        rows = np.tile(block, acknowledged).reshape(-1, 2, 100)
        for number, host in enumerate(("p1", "p2")):
            expected = rows[:, number].tobytes()
            assert (tmp_path / host / "a").read_bytes()[: len(expected)] == expected


def test_a_call_after_the_listener_is_back_succeeds(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (process, addresses):
        session = session_of(addresses)
        file = StripedFile.open("p1/a", 10, session=session)
        file.pwrite(b"before", 0)
        process.kill()
        process.wait()
        with pytest.raises(ListenerLost, match="p1"):
            file.pwrite(b"during", 0)
        with pytest.raises(ListenerLost, match="p1"):
            file.pread(6, 0)
        with listener(tmp_path, "p1", port=addresses["p1"][1]):
            assert file.pread(6, 0) == b"before"
            file.pwrite(b"after!", 0)
            assert file.pread(6, 0) == b"after!"
            file.close()


def test_a_client_killed_in_the_middle_of_its_writes_disturbs_nobody(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (_, addresses):
        program = (
            "import sys, numpy as np\n"
            "from sfio_emu import Session, StripedFile\n"
            "from sfio_emu.adapters.sockets import TcpConnections\n"
            "session = Session(TcpConnections({'p1': ('127.0.0.1', int(sys.argv[1]))}))\n"
            "file = StripedFile.open('p1/a', 75, session=session)\n"
            "data = np.full(3_000_000, 7, dtype=np.uint8)\n"
            "print('writing', flush=True)\n"
            "while True:\n"
            "    file.pwrite(data, 5_000_000)\n"
        )
        own = StripedFile.open("p1/a", 75, session=session_of(addresses, timeout_s=20))
        own.pwrite(b"\x01" * 1_000_000, 0)
        with subprocess.Popen(
            [sys.executable, "-c", program, str(addresses["p1"][1])],
            stdout=subprocess.PIPE,
            text=True,
        ) as other:
            assert other.stdout is not None
            assert other.stdout.readline() == "writing\n"
            time.sleep(0.2)
            other.send_signal(signal.SIGKILL)
        for round_number in range(3):
            own.pwrite(bytes([round_number]) * 100, 1_000_000)
        assert own.pread(1_000_000, 0) == b"\x01" * 1_000_000
        assert own.pread(100, 1_000_000) == b"\x02" * 100
        theirs = own.pread(3_000_000, 5_000_000)
        assert set(theirs) <= {0, 7}


def test_a_message_that_did_not_arrive_whole_changes_nothing(tmp_path: Path) -> None:
    with (
        listener(tmp_path, "p1") as (_, addresses),
        cutting_proxy(addresses["p1"], after=700) as cut,
    ):
        straight = StripedFile.open("p1/a", 5, session=session_of(addresses))
        straight.pwrite(b"x" * 2000, 0)
        half = StripedFile.open("p1/a", 5, session=session_of({"p1": cut}))
        with pytest.raises(ListenerLost):
            half.pwrite(b"y" * 2000, 0)
        assert straight.pread(3000, 0) == b"x" * 2000


def test_file_at_its_limit_is_reported_by_call_and_merror(
    tmp_path: Path,
) -> None:
    with (
        listener(tmp_path, "p1") as (_, first),
        listener(tmp_path, "p2", limit_bytes=5000) as (_, second),
    ):
        session = session_of(first, second)
        file = StripedFile.open("p1/a;p2/a", 100, session=session)
        data = np.arange(40_000, dtype=np.uint16).view(np.uint8)[:40_000]
        with pytest.raises(RemoteFailure, match="p2: write of a: File too large") as caught:
            file.pwrite(data, 0)
        assert caught.value.errno == errno.EFBIG
        assert (tmp_path / "p1/a").read_bytes() == data.reshape(-1, 200)[:, :100].tobytes()
        counts = session.take_errors()
        assert counts["write"] >= 1
        assert counts["open"] == counts["ftruncate"] == counts["rejected"] == 0
        assert not any(session.take_errors().values()), "reading resets the counters"
        file.pwrite(b"small", 0)
        assert file.pread(5, 0) == b"small"


def test_merror_asks_every_io_node_also_those_this_process_has_not_used(tmp_path: Path) -> None:
    for host in ("p1", "p2"):
        (tmp_path / host / "taken").mkdir(parents=True)
    with listener(tmp_path, "p1") as (_, first), listener(tmp_path, "p2") as (_, second):
        for host, place in {**first, **second}.items():
            with pytest.raises(RemoteFailure, match="open of taken"):
                StripedFile.open(f"{host}/taken", 5, session=session_of({host: place}))
        use(session_of(first, second))
        try:
            assert merror()["open"] == 2, "Appendix A: statistics accumulated on all I/O nodes"
            assert not any(merror().values()), "reading resets the counters"
        finally:
            use(None)


def test_counts_are_kept_while_an_io_node_cannot_be_asked(tmp_path: Path) -> None:
    (tmp_path / "p1/taken").mkdir(parents=True)
    with listener(tmp_path, "p1") as (_, first):
        with listener(tmp_path, "p2") as (_, second):
            pass
        session = session_of(first, second)
        with pytest.raises(RemoteFailure, match="open of taken"):
            StripedFile.open("p1/taken", 5, session=session)
        with pytest.raises(ListenerLost, match="p2"):
            session.take_errors()
        with listener(tmp_path, "p2", port=second["p2"][1]):
            assert session.take_errors()["open"] == 1


def test_a_full_disk_is_reported_with_its_reason(tmp_path: Path) -> None:
    small = tmp_path / "small"
    small.mkdir()
    own_mount = small_disk(small)
    with (
        listener(small, "p1", before=own_mount) as (_, first),
        listener(tmp_path / "big", "p2") as (_, second),
    ):
        file = StripedFile.open("p1/a;p2/a", 1000, session=session_of(first, second))
        with pytest.raises(RemoteFailure, match="No space left") as caught:
            file.pwrite(bytes(2_000_000), 0)
        assert (caught.value.host, caught.value.call) == ("p1", "write")
        assert (tmp_path / "big/p2/a").stat().st_size == 1_000_000


def test_paths_do_not_leave_the_root_even_over_links(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_bytes(b"secret")
    root = tmp_path / "root"
    (root / "p1").mkdir(parents=True)
    (root / "p1/link").symlink_to(outside)
    (root / "p1/file").symlink_to(outside / "secret")
    with listener(root, "p1") as (_, addresses):
        session = session_of(addresses)
        with pytest.raises(UsageError, match="leaves the root"):
            StripedFile.open("p1/../outside/secret", 5, session=session)
        for path in ("link/secret", "link/new", "file"):
            with pytest.raises(RemoteFailure, match="open of"):
                StripedFile.open(f"p1/{path}", 5, session=session)
        assert session.take_errors()["open"] == 3
    assert sorted(path.name for path in outside.iterdir()) == ["secret"]
    assert (outside / "secret").read_bytes() == b"secret"


def test_no_listener_is_an_error_within_the_time_limit(tmp_path: Path) -> None:
    with socket.socket() as idle:
        idle.bind(("127.0.0.1", 0))
        start_s = time.monotonic()
        with pytest.raises(ListenerLost, match="p1: no connection to its listener"):
            StripedFile.open(
                "p1/a", 5, session=session_of({"p1": ("127.0.0.1", idle.getsockname()[1])})
            )
        assert time.monotonic() - start_s < 3
    with pytest.raises(UsageError, match="no listener is known for the host 'p9'"):
        StripedFile.open("p9/a", 5, session=session_of({"p1": ("127.0.0.1", 1)}))


def test_a_listener_that_stands_still_does_not_hang_its_client(tmp_path: Path) -> None:
    with listener(tmp_path, "p1") as (process, addresses):
        file = StripedFile.open("p1/a", 5, session=session_of(addresses, stall_s=0.5))
        process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(ListenerLost, match=r"transferred no byte for 0\.5 s"):
                file.pwrite(b"data", 0)
        finally:
            process.send_signal(signal.SIGCONT)


def cutting_proxy(target: tuple[str, int], after: int):  # type: ignore[no-untyped-def]
    """A way that is cut after so many bytes."""
    return proxy(target, lambda part, place: part[: max(0, after - place)])


def flipping_proxy(target: tuple[str, int], at: int):  # type: ignore[no-untyped-def]
    """A way on which one bit of the byte at a place of the stream is flipped."""

    def flip(part: bytes, place: int) -> bytes:
        if place <= at < place + len(part):
            part = part[: at - place] + bytes([part[at - place] ^ 4]) + part[at - place + 1 :]
        return part

    return proxy(target, flip)


BEFORE_WRITE = 2 * HEADER_BYTES + NONCE_BYTES + len(encode_open("a"))
"""Bytes of HELLO and OPEN before the WRITE of these tests."""


@pytest.mark.parametrize(
    ("place", "part"), [(3, "head"), (HEADER_BYTES + 2, "body"), (HEADER_BYTES + 16 + 3000, "data")]
)
def test_a_corrupted_message_is_rejected_whole_and_counted(
    tmp_path: Path, place: int, part: str
) -> None:
    with (
        listener(tmp_path, "p1") as (_, addresses),
        flipping_proxy(addresses["p1"], BEFORE_WRITE + place) as bad,
    ):
        straight = session_of(addresses)
        clean = StripedFile.open("p1/a", 7, session=straight)
        clean.pwrite(b"x" * 9000, 0)
        file = StripedFile.open(
            "p1/a", 7, session=session_of({"p1": bad}, settings=Settings(check_data=True))
        )
        with pytest.raises((ProtocolError, ListenerLost)):
            file.pwrite(b"y" * 9000, 0)
        assert clean.pread(10_000, 0) == b"x" * 9000
        assert straight.take_errors()["rejected"] == 1


def test_writes_are_checked_by_default(tmp_path: Path) -> None:
    for settings, accepted in ((None, False), (Settings(check_data=False), True)):
        with (
            listener(tmp_path, "p1") as (_, addresses),
            flipping_proxy(addresses["p1"], BEFORE_WRITE + HEADER_BYTES + 16 + 3000) as bad,
        ):
            session = session_of({"p1": bad}, settings=settings)
            file = StripedFile.open("p1/a", 7, session=session)
            if accepted:
                file.pwrite(b"y" * 9000, 0)
                session.close()
                continue
            with pytest.raises((ProtocolError, ListenerLost)):
                file.pwrite(b"y" * 9000, 0)
