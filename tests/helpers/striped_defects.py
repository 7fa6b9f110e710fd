"""Looks for the defects of striped files in any version, from outside: `PYTHONPATH=VERSION python
tests/helpers/striped_defects.py [NUMBER ...]`.

One line a defect: its number, "seen" or "not seen", and what happened. The numbers are those of
docs/measurements/striping_trials.md. The disk fails or stands still by a listener whose calls of the operating system
are changed before it starts; all else is what users call.
"""

from __future__ import annotations

import datetime
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from sfio_emu import Session, StripedFile, interface, mopen, use, wire
from sfio_emu.adapters.sockets import TcpConnections
from sfio_emu.views.mpi_file import MpiFile

PATIENCE_S = 60
FAULTY_DISK = """
import errno, os, runpy, sys, time
ask = sys.argv.pop(1)
def faulty(call):
    def changed(*arguments):
        what = open(ask).read() if os.path.exists(ask) else ""
        if what == "stall " + call.__name__:
            os.unlink(ask)
            time.sleep(4)
        if what == "fail reads" and call.__name__ in ("preadv", "sendfile"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return call(*arguments)
    return changed
for name in ("pwrite", "preadv", "sendfile"):
    setattr(os, name, faulty(getattr(os, name)))
runpy.run_module("sfio_emu.adapters.listener", run_name="__main__", alter_sys=True)
"""


class Listener:
    """A listener process of `hosts`; `ask` says what its disk does."""

    def __init__(self, *hosts: str, root: Path | None = None) -> None:
        self.root = Path(tempfile.mkdtemp(dir="/dev/shm")) if root is None else root
        self.asked = Path(tempfile.mktemp())
        words = [sys.executable, "-c", FAULTY_DISK, str(self.asked), "--root", str(self.root)]
        for host in hosts:
            words += ["--listen", f"{host}@127.0.0.1:0"]
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        lines = [self.process.stdout.readline() for _ in hosts]
        self.ports = {
            host: int(line.rpartition(":")[2])
            for host, line in zip(hosts, lines, strict=True)
            if line.strip()
        }

    def session(self, **settings: Any) -> Session:
        return Session(
            TcpConnections(
                {host: ("127.0.0.1", port) for host, port in self.ports.items()}, **settings
            )
        )

    def ask(self, what: str) -> None:
        self.asked.write_text(what)

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.root, ignore_errors=True)
        self.asked.unlink(missing_ok=True)


def error_of(function: Callable[[], object]) -> str:
    """Call the function, and return its error in one line, or "" if it succeeds."""
    try:
        function()
    except Exception as fault:  # noqa: BLE001  # Versions raise different errors.
        return f"{type(fault).__name__}: {str(fault).splitlines()[0][:110] if str(fault) else ''}"
    return ""


def stalled_disk() -> tuple[bool, str]:
    """5: the disk stands still for 4 s in a write of 100 MB, with a time limit of 1 s."""
    listener = Listener("p1")
    try:
        file = StripedFile.open("p1/a", 75, session=listener.session(timeout_s=1.0))
        listener.ask("stall pwrite")
        end = error_of(lambda: file.pwrite(bytes(100_000_000), 0))
        return bool(end), end or "the write waited and succeeded"
    finally:
        listener.close()


def failing_reads() -> tuple[bool, str]:
    """7: EIO where a long read and a short one read the disk."""
    listener = Listener("p1")
    try:
        use(session := listener.session())
        file = StripedFile.open("p1/some/name", 75, session=session)
        file.pwrite(bytes(3_000_000), 0)
        listener.ask("fail reads")
        ends = [error_of(lambda size=size: file.pread(size, 0)) for size in (3_000_000, 100)]
        counted = error_of(lambda: ends.append(str(interface.merror()["read"])))
        bad = (
            counted
            or any("RemoteFailure" not in end or "some/name" not in end for end in ends[:2])
            or ends[2] != "2"
        )
        return bool(bad), f"long: {ends[0]}; short: {ends[1]}; merror counts {ends[2:] or counted}"
    finally:
        listener.close()


def reads_beside_truncations() -> tuple[bool, str]:
    """8: 150 reads of 30 MB while another session makes the file shorter and longer; the way to the reader is slow."""
    listener = Listener("p1")
    try:
        mine, other = (
            StripedFile.open("p1/a", 75, session=listener.session(open_socket=make))
            for make in (small_socket, None)
        )
        over, cuts = threading.Event(), [0]

        def truncate() -> None:
            while not over.is_set():
                cuts[0] += 1
                other.truncate(1000)
                other.truncate(30_000_000)

        thread = threading.Thread(target=truncate)
        thread.start()
        room = bytearray(30_000_000)
        ends = [error_of(lambda: mine.pread(room, 0)) for _ in range(150)]
        over.set()
        thread.join()
        failed = [end for end in ends if end]
        return (
            bool(failed),
            f"{len(failed)} of {len(ends)} failed beside {cuts[0]} truncations{': ' + failed[0] if failed else ''}",
        )
    finally:
        listener.close()


def small_socket(host: str) -> socket.socket:
    """One that takes little at a time, as a slow way would."""
    stream = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    return stream


def half_messages_and_long_paths() -> tuple[bool, str]:
    """9: another client's write of 100 kB beside 40 clients that send a message byte by byte, and behind a path of a
    megabyte."""
    listener = Listener("p1")
    try:
        file = StripedFile.open("p1/a", 75, session=listener.session(timeout_s=10.0))
        file.pwrite(bytes(100_000), 0)
        place = ("127.0.0.1", listener.ports["p1"])
        head = wire.encode_header(int(wire.Kind.WRITE), 1, bytes(16), 900_000)
        slow = [socket.create_connection(place) for _ in range(40)]
        for stream in slow:
            stream.sendall(head)
        over = threading.Event()

        def drip() -> None:
            while not over.wait(1.0):
                for stream in slow:
                    error_of(lambda stream=stream: stream.send(b"x"))  # type: ignore[misc]

        thread = threading.Thread(target=drip)
        thread.start()
        time.sleep(1.5)
        latencies = [timed(lambda: file.pwrite(bytes(100_000), 0))]
        over.set()
        thread.join()
        for stream in slow:
            stream.close()
        time.sleep(0.5)
        opening = wire.encode_header(int(wire.Kind.OPEN), 1, b"\x01" + b"a/" * 500_000)
        with socket.create_connection(place) as stream:
            threading.Thread(
                target=lambda: error_of(lambda: stream.sendall(opening)), daemon=True
            ).start()
            time.sleep(0.2)
            latencies.append(timed(lambda: file.pwrite(bytes(100_000), 0)))
        shown = [f"{seconds:.2f} s{', ' + end if end else ''}" for seconds, end in latencies]
        return any(
            seconds > 2 or end for seconds, end in latencies
        ), f"half messages: {shown[0]}; long path: {shown[1]}"
    finally:
        listener.close()


def timed(act: Callable[[], object]) -> tuple[float, str]:
    """Seconds, and how it ended."""
    began_s = time.monotonic()
    end = error_of(act)
    return time.monotonic() - began_s, end


def two_listeners() -> tuple[bool, str]:
    """10: a second listener of the same folder."""
    first = Listener("p1")
    second = Listener("p1", root=first.root)
    try:
        return bool(
            second.ports
        ), "the second one serves" if second.ports else "the second one does not start"
    finally:
        second.close()
        first.close()


def aliased_subfiles() -> tuple[bool, str]:
    """11: two subfiles of a name that are one file on the disk."""
    listener = Listener("p1", "p2")
    try:
        session = listener.session()
        folder = listener.root / "p1" / "x"
        folder.mkdir(parents=True)
        (folder / "c").touch()
        (folder / "d").hardlink_to(folder / "c")
        file = []
        end = error_of(lambda: file.append(StripedFile.open("p1/x/c;p1/x/d", 75, session=session)))
        return not end, end or "opened, and each write overwrites the other's"
    finally:
        listener.close()


def modes_and_deletions() -> tuple[bool, str]:
    """12: opening to read makes files; deleting takes links, and half of a file where one host does not answer."""
    listener, gone = Listener("p1"), Listener("p2")
    try:
        session = listener.session()
        use(session)
        found = []
        error_of(lambda: MpiFile.open("p1/new", 75, mode="r", session=session))
        if list(listener.root.rglob("new")):
            found.append("mode r made a file")
        StripedFile.open("p1/real", 75, session=session).pwrite(b"1", 0)
        real = next(listener.root.rglob("real"))
        (real.parent / "link").symlink_to(real)
        error_of(lambda: interface.mdelete("p1/link"))
        if not (real.parent / "link").is_symlink():
            found.append("mdelete took a link")
        ports = listener.ports | gone.ports
        both = Session(TcpConnections({host: ("127.0.0.1", port) for host, port in ports.items()}))
        use(both)
        interface.mcreate("p1/half;p2/half")
        gone.process.kill()
        gone.process.wait()
        error_of(lambda: interface.mdelete("p1/half;p2/half"))
        if not list(listener.root.rglob("half")):
            found.append("mdelete took half of a file")
        return bool(found), "; ".join(found) or "nothing made, no link and no half taken"
    finally:
        use(None)
        listener.close()
        gone.close()


def mistakes_of_the_caller() -> tuple[bool, str]:
    """13: mistakes that must be one `UsageError` each, and numbers of numpy that must be taken."""
    listener = Listener("p1")
    try:
        session = listener.session()
        file = StripedFile.open("p1/a", 75, session=session)
        anything: Any = None
        dates = np.array([datetime.datetime(2026, 1, 1)], dtype="datetime64[s]")

        def connect_to_port_99999() -> object:
            return Session(TcpConnections({"p1": ("127.0.0.1", 99999)})).link("p1")

        openings: dict[str, tuple[Any, Any]] = {
            "unit 1.5": ("p1/b", 1.5),
            "unit None": ("p1/b", None),
            "name of bytes": (b"p1/b", 75),
            "surrogates": ("p1/\ud800", 75),
        }
        writes: dict[str, tuple[Any, Any]] = {
            "offset 2^63": (b"x", 2**63),
            "offset 1.7": (b"x", 1.7),
            "offset '3'": (b"x", "3"),
            "offset NaN": (b"x", float("nan")),
            "offset None": (b"x", None),
            "objects": (np.array([object()]), 0),
            "datetime64": (dates, 0),
        }
        calls: dict[str, Callable[[], object]] = {
            "port 99999": connect_to_port_99999,
            "mclose(None)": partial(interface.mclose, anything),
        }
        for name, (path, unit) in openings.items():
            calls[name] = partial(StripedFile.open, path, unit, session=session)
        for name, (data, offset) in writes.items():
            calls[name] = partial(file.pwrite, data, offset)
        found = []
        for name, call in calls.items():
            end = error_of(call)
            if not end.startswith("UsageError"):
                found.append(f"{name}: {end.partition(':')[0] or 'taken in silence'}")
        for kind in (np.int64, np.uint32):
            end = error_of(
                lambda kind=kind: StripedFile.open("p1/c", kind(75), session=session).pwrite(
                    b"x", kind(3)
                )
            )  # type: ignore[misc]
            if end:
                found.append(f"{kind.__name__}: {end.partition(':')[0]}")
        return bool(found), "; ".join(
            found
        ) or f"{len(calls)} refused in one line each, numbers of numpy taken"
    finally:
        listener.close()


def threads_and_environment() -> tuple[bool, str]:
    """14: four threads on one session; no SFIO_LISTENERS."""
    listener = Listener("p1")
    try:
        file = StripedFile.open("p1/a", 75, session=listener.session())
        ends: list[str] = []

        def work(number: int) -> None:
            data = bytes([number]) * 50_000

            def turn() -> None:
                file.pwrite(data, 50_000 * number)
                if file.pread(50_000, 50_000 * number) != data:
                    raise AssertionError("it read what it did not write")

            for _ in range(30):
                ends.extend(filter(None, [error_of(turn)]))

        threads = [
            threading.Thread(target=work, args=(number,), daemon=True) for number in range(4)
        ]
        for thread in threads:
            thread.start()
        until_s = time.monotonic() + 20
        for thread in threads:
            thread.join(max(0.1, until_s - time.monotonic()))
        hung = sum(thread.is_alive() for thread in threads)
        os.environ.pop("SFIO_LISTENERS", None)
        unnamed = error_of(lambda: mopen("p1/a", 75))
        found = [f"{len(ends)} calls failed ({ends[0]})"] if ends else []
        found += [f"{hung} threads hung"] if hung else []
        found += [] if "SFIO_LISTENERS" in unnamed else [f"without SFIO_LISTENERS: {unnamed}"]
        return bool(found), "; ".join(found) or "four threads took turns; SFIO_LISTENERS is named"
    finally:
        listener.close()


DEFECTS: dict[int, Callable[[], tuple[bool, str]]] = {
    5: stalled_disk, 7: failing_reads, 8: reads_beside_truncations, 9: half_messages_and_long_paths, 10: two_listeners,
    11: aliased_subfiles, 12: modes_and_deletions, 13: mistakes_of_the_caller, 14: threads_and_environment,
}  # fmt: skip


def main(words: list[str]) -> int:
    """Each defect in a process of its own, for what hangs; 1 where one was seen."""
    if words[:1] == ["--here"]:
        seen, what = DEFECTS[int(words[1])]()
        print("seen" if seen else "not seen", "-", what, flush=True)
        os._exit(0)
    seen = 0
    for number in map(int, words) if words else DEFECTS:
        try:
            run = [sys.executable, __file__, "--here", str(number)]
            done = subprocess.run(run, capture_output=True, text=True, timeout=PATIENCE_S)
            said = (
                done.stdout.strip()
                or f"could not be looked for: {done.stderr.strip().splitlines()[-1:]}"
            )
        except subprocess.TimeoutExpired:
            said = f"seen - it hung for {PATIENCE_S} s"
        seen += said.startswith("seen")
        print(f"{number:2}: {said}", flush=True)
    return int(seen > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
