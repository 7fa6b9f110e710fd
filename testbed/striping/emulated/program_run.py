"""A parallel program on a network of real switches: one process a compute node inside its host's namespaces, listeners beside.

Ranks find the group and the listeners in their environment. Where one fails the others are ended; nothing is left behind.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TextIO

from sfio_emu.adapters.key_files import new_key, write_key
from sfio_emu.adapters.process_group import GroupServer
from testbed.bulk.circuit_rules import return_rules, standing_rules
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.control.ground_rules import install_shortest_paths
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import InputError, TimeLimitError
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import FlowRule
from testbed.striping.emulated.listeners import LISTENER_PORT, ListenerProcess
from testbed.striping.placement import Placement

_GRACE_S = 2.0


@dataclass(frozen=True, kw_only=True)
class ProgramEnd:
    """``exit_code``: 0, or that of the first rank that failed (128 + signal where a signal ended it); ``rank``: which."""

    exit_code: int
    rank: int | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a rank runs: the emulated host's name and address, its node, and what the rank finds in its environment."""

    rank: int
    node: str
    host: str
    ip: str
    environment: Mapping[str, str]


class ProgramNetwork:
    """The network with listeners and a process group, inside the sandbox; a context manager.

    ``root``: where the subfiles lie, a directory for each I/O node and a link ``p1``, ``p2``, ... to each.
    """

    def __init__(
        self, placement: Placement, root: Path, *, mtu: int = 9000, shape: bool = True, timeout_s: float = 2.0
    ) -> None:
        self.placement, self.root = placement, root
        self._mtu, self._shape, self._timeout_s = mtu, shape, timeout_s

    def __enter__(self) -> ProgramNetwork:
        with ExitStack() as stack:
            self._build(stack)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _build(self, stack: ExitStack) -> None:
        wiring = wire(self.placement.network)
        self.wiring = wiring
        self.net = stack.enter_context(EmulatedNetwork(wiring, mtu=self._mtu, shape=self._shape))
        install_shortest_paths(wiring)
        with closing(CircuitSwitchboard(wiring, ())) as switchboard:
            switchboard.change_rules(file_rules(wiring, self.placement), "add")
        make_directories(self.root, self.placement)
        key = new_key()
        self._key_file = Path(tempfile.mkdtemp(prefix="key-", dir=require_sandbox() / "tmp")) / "key"
        write_key(self._key_file, key)
        self.listeners = ListenerProcess(self.net, wiring, self.placement.io, self.root, key=key)
        stack.callback(self.listeners.close)
        self._group = f"unix:{require_sandbox() / 'tmp' / 'group'}"
        self._server = GroupServer(self._group, len(self.placement.compute))
        stack.callback(self._server.close)

    def places(self) -> tuple[Place, ...]:
        """One a rank."""
        listeners = ",".join(
            f"{name}={self.wiring.host_at(node).ip}:{LISTENER_PORT}" for name, node in self.placement.names.items()
        )
        return tuple(
            Place(
                rank=rank,
                node=node,
                host=self.wiring.host_at(node).name,
                ip=self.wiring.host_at(node).ip,
                environment={
                    "SFIO_RANK": str(rank),
                    "SFIO_SIZE": str(len(self.placement.compute)),
                    "SFIO_GROUP": self._group,
                    "SFIO_ADDRESS": self.wiring.host_at(node).ip,
                    "SFIO_LISTENERS": listeners,
                    "SFIO_KEY_FILE": str(self._key_file),
                    "SFIO_TIMEOUT_S": f"{self._timeout_s:g}",
                    "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
                    "PYTHONUNBUFFERED": "1",
                },
            )
            for rank, node in enumerate(self.placement.compute)
        )

    def run(self, command: Sequence[str], *, prefixed: bool = False, time_limit_s: float | None = None) -> ProgramEnd:
        """Run the command once a rank, until all have ended or one has failed.

        ``prefixed``: every line of output begins with its rank. Raises InputError where the command cannot be started.
        """
        with _Ranks(self.net, self.places(), command, prefixed) as ranks:
            rank, code = ranks.wait(time_limit_s)
            broke = self._server.failed_rank
            if rank is not None and broke is not None and broke != rank:
                rank, code = ranks.cause(broke) or (rank, code)
        return ProgramEnd(exit_code=code, rank=rank)


def file_rules(wiring: Wiring, placement: Placement) -> tuple[FlowRule, ...]:
    """Requests and answers of striped files over the network's own static paths, whatever way other packets go."""
    paths = placement.remote
    back = (rule for pair, path in paths.items() for rule in return_rules(wiring, pair, path))
    return (*standing_rules(wiring, paths), *back)


def make_directories(root: Path, placement: Placement) -> None:
    """A directory for each I/O node below ``root``, and its alias beside it; InputError where that cannot be."""
    try:
        for node in placement.io:
            (root / node).mkdir(parents=True, exist_ok=True)
        for alias, node in placement.aliases.items():
            link = root / alias
            if link.is_symlink() or not link.exists():
                link.unlink(missing_ok=True)
                link.symlink_to(node)
    except OSError as error:
        raise InputError(f"--root {root}: {error.strerror}; choose a directory that can be written") from None


def _shell_code(code: int) -> int:
    return code if code > 0 else 128 - code


class _Ranks:
    """The processes of a program; leaving the block ends what is left of them."""

    def __init__(self, net: EmulatedNetwork, places: Sequence[Place], command: Sequence[str], prefixed: bool) -> None:
        self.processes: list[subprocess.Popen[bytes]] = []
        self._echoes: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._prefixed = prefixed
        for place in places:
            process = net.run_in_host(
                place.host,
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **place.environment},
            )
            self.processes.append(process)
            for stream, target in ((process.stdout, sys.stdout), (process.stderr, sys.stderr)):
                assert stream is not None
                self._echo(place.rank, stream, target)

    def __enter__(self) -> _Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        for thread in self._echoes:
            thread.join(_GRACE_S)

    def wait(self, time_limit_s: float | None) -> tuple[int | None, int]:
        """(rank, exit code) of the first that failed, (None, 0) where none did; TimeLimitError when the time is over."""
        until = None if time_limit_s is None else time.monotonic() + time_limit_s
        watched = {os.pidfd_open(p.pid): rank for rank, p in enumerate(self.processes)}
        try:
            while watched:
                left = None if until is None else max(0.0, until - time.monotonic())
                ready = select.select(list(watched), (), (), left)[0]
                if not ready:
                    raise TimeLimitError(f"the program was ended after {time_limit_s:g} s; raise --time-limit")
                for file in ready:
                    rank = watched.pop(file)
                    os.close(file)
                    code = self.processes[rank].wait()
                    if code != 0:
                        return rank, _shell_code(code)
        finally:
            for file in watched:
                os.close(file)
        return None, 0

    def cause(self, rank: int) -> tuple[int, int] | None:
        """That rank with its exit code where it failed too: the others may have ended because of it, and before it."""
        try:
            code = self.processes[rank].wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            return None
        return (rank, _shell_code(code)) if code else None

    def _echo(self, rank: int, source: IO[bytes], target: TextIO) -> None:
        """Whole lines, so that those of different ranks do not mix."""

        def copy() -> None:
            with source:
                for line in source:
                    with self._lock:
                        target.flush()
                        if self._prefixed:
                            line = f"[{rank}] ".encode() + line.rstrip(b"\n") + b"\n"
                        target.buffer.write(line)
                        target.buffer.flush()

        thread = threading.Thread(target=copy, daemon=True)
        thread.start()
        self._echoes.append(thread)

    def _end(self) -> None:
        for sent, wait_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, _GRACE_S)):
            left = [p for p in self.processes if p.poll() is None]
            for process in left:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, sent)
            until = time.monotonic() + wait_s
            for process in left:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()))
