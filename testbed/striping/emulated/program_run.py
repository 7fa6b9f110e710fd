"""A parallel program on a network of real switches: one process a compute node inside its host's namespaces, listeners beside.

Ranks find the group and the listeners in their environment. Where one fails the others are ended; nothing is left behind.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from sfio_emu.adapters.key_files import new_key, write_key
from sfio_emu.adapters.process_group import GroupServer
from testbed.bulk.circuit_rules import return_rules, standing_rules
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.control.ground_rules import install_shortest_paths
from testbed.emulation.held.program_group import ChildProgram, ProgramGroup
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.rights import confined
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import InputError
from testbed.machines.adapters.platform import here
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import FlowRule
from testbed.striping.emulated.listeners import LISTENER_PORT, ListenerProcess
from testbed.striping.placement import Placement


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
        platform = stack.enter_context(here(wiring, mtu=self._mtu, shape=self._shape, controlled=False))
        self.net = platform.network
        install_shortest_paths(wiring)
        with closing(CircuitSwitchboard(platform, ())) as switchboard:
            switchboard.change_rules(file_rules(wiring, self.placement), "add")
        make_directories(self.root, self.placement)
        key = new_key()
        self.listeners = ListenerProcess(self.net, wiring, self.placement.io, self.root, key=key)
        stack.callback(self.listeners.close)
        group = f"unix:{require_sandbox() / 'tmp' / 'group'}"
        self._surroundings = surroundings(group, key)
        self._server = GroupServer(group, len(self.placement.compute))
        stack.callback(self._server.close)

    def places(self) -> tuple[Place, ...]:
        """One a rank."""
        return places_of(self.wiring, self.placement, self._timeout_s, self._surroundings)

    def run(self, command: Sequence[str], *, prefixed: bool = False, time_limit_s: float | None = None) -> ProgramEnd:
        """Run the command once a rank, until all have ended or one has failed.

        ``prefixed``: every line of output begins with its rank. Raises InputError where the command cannot be started.
        """
        with ProgramGroup(start_ranks(self.net, self.places(), command), prefixed=prefixed) as ranks:
            return end_of(ranks, self._server, time_limit_s)


def end_of(ranks: ProgramGroup, group: GroupServer, time_limit_s: float | None) -> ProgramEnd:
    """Wait for the ranks; where one failed because another did, that one is named."""
    rank, code = ranks.wait(time_limit_s)
    broke = group.failed_rank
    if rank is not None and broke is not None and broke != rank:
        rank, code = ranks.cause(broke) or (rank, code)
    return ProgramEnd(exit_code=code, rank=rank)


def surroundings(group: str, key: bytes) -> dict[str, str]:
    """What every rank on this machine finds in its environment; the key goes into a new file here."""
    key_file = Path(tempfile.mkdtemp(prefix="key-", dir=require_sandbox() / "tmp")) / "key"
    write_key(key_file, key)
    return {
        "SFIO_GROUP": group,
        "SFIO_KEY_FILE": str(key_file),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
    }


def places_of(wiring: Wiring, placement: Placement, timeout_s: float, around: Mapping[str, str]) -> tuple[Place, ...]:
    """One a rank; ``around``: of ``surroundings``."""
    listeners = ",".join(f"{name}={wiring.host_at(node).ip}:{LISTENER_PORT}" for name, node in placement.names.items())
    return tuple(
        Place(
            rank=rank,
            node=node,
            host=wiring.host_at(node).name,
            ip=wiring.host_at(node).ip,
            environment={
                **around,
                "SFIO_RANK": str(rank),
                "SFIO_SIZE": str(len(placement.compute)),
                "SFIO_ADDRESS": wiring.host_at(node).ip,
                "SFIO_LISTENERS": listeners,
                "SFIO_TIMEOUT_S": f"{timeout_s:g}",
            },
        )
        for rank, node in enumerate(placement.compute)
    )


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


def start_ranks(net: EmulatedNetwork, places: Sequence[Place], command: Sequence[str]) -> list[ChildProgram]:
    """The command in each place's host, with its environment. Raises OSError where it cannot be started."""
    return [
        ChildProgram(
            net.run_in_host(
                place.host,
                confined(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**os.environ, **place.environment},
            )
        )
        for place in places
    ]
