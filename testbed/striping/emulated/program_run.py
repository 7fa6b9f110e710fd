"""A parallel program on a network of real switches: one process a compute node inside its host's namespaces, listeners
beside.

Over several machines each rank and each listener is where its host lies, and all ranks are one group. Ranks find the
group and the listeners in their environment. Where one fails the others are ended; nothing is left behind.
"""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from sfio_emu.adapters.key_files import new_key, write_key
from sfio_emu.adapters.peers.group_server import GroupServer
from testbed.bulk.circuit_rules import packet_switching_rules, pair_routes, return_rules
from testbed.bulk.emulated.switchboard import CircuitSwitchboard
from testbed.emulation.attach.program_group import ChildProgram, ProgramGroup
from testbed.emulation.control.remote_controller import accept_each, copy_both_directions
from testbed.emulation.network.emulated_network import EmulatedNetwork
from testbed.emulation.sandbox.process_lifetime import confined
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import InputError
from testbed.machines.adapters.platform import FromParts, Here, Platform, network_up
from testbed.machines.adapters.rpc_network import network_of
from testbed.machines.adapters.rpc_programs import add_all_neighbours
from testbed.machines.adapters.stream_forwarding import listen_address
from testbed.machines.machines_request import MachinesRequest
from testbed.machines.rpc import MachineState
from testbed.model.wiring import Wiring, wire
from testbed.openflow.rules import FlowRule
from testbed.striping.emulated.machine_ends import LISTENER_PORT, ListenerProcess
from testbed.striping.placement import Placement, file_host
from topologies import Json

_JOIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ProgramShare:
    """A machine's part of a program of ``testbed run``: the I/O nodes that lie on it, whose subfiles are below ``root``
    there.

    ``group``: the address at which the coordinator has the group of all ranks.
    """

    placement: Placement
    io: tuple[str, ...]
    root: Path
    key: bytes
    group: str


def start_program_share(machine: MachineState, share: ProgramShare) -> dict[str, str]:
    """Listeners of the I/O nodes that lie here; what every rank here finds in its environment.

    Where the coordinator is elsewhere ranks get a door to the group, whose hosts have no other way to it.
    """
    built, net, listener = machine.objects["built"], network_of(machine), group_listener()
    make_directories(share.root, share.placement)
    if share.io:
        built.callback(ListenerProcess(net, share.io, share.root, share.key).close)
    if share.group.startswith("tcp:"):
        listening = built.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(str(listener))
        listening.listen(len(share.placement.compute))
        built.callback(listener.unlink, missing_ok=True)
        _, host, port = share.group.split(":")
        accept_each(listening, partial(_join, (host, int(port))))
    key_file = Path(tempfile.mkdtemp(prefix="key-", dir=require_sandbox() / "tmp")) / "key"
    write_key(key_file, share.key)
    return {
        "SFIO_GROUP": f"unix:{listener}",
        "SFIO_KEY_FILE": str(key_file),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
    }


def group_listener() -> Path:
    """The socket of the group of all ranks, in this machine's sandbox."""
    return require_sandbox() / "tmp" / "group"


def group_address(platform: Platform) -> str:
    """Where the coordinator has the group of all ranks: a socket of this sandbox, or one that other machines reach."""
    if isinstance(platform, Here):
        return f"unix:{group_listener()}"
    return f"tcp:{listen_address(platform.machines.facts[0].address)}:0"


def make_directories(root: Path, placement: Placement) -> None:
    """A directory for each I/O node below ``root``, and its alias next to it; InputError where that cannot be."""
    try:
        for node in placement.io:
            (root / file_host(node)).mkdir(parents=True, exist_ok=True)
        for alias, node in placement.aliases.items():
            link = root / alias
            if link.is_symlink() or not link.exists():
                link.unlink(missing_ok=True)
                with contextlib.suppress(FileExistsError):  # another machine of the run was quicker
                    link.symlink_to(file_host(node))
    except OSError as error:
        raise InputError(
            f"--subfile-dir {root}: {error.strerror}; choose a directory that can be written"
        ) from None


def _join(towards: tuple[str, int], member: socket.socket) -> None:
    """A connection to the door as one to the coordinator."""
    with member, suppress(OSError), socket.create_connection(towards, _JOIN_S) as sock:
        copy_both_directions(sock, member.fileno(), member.fileno())


@dataclass(frozen=True, kw_only=True)
class ProgramEnd:
    """``exit_code``: 0, or that of the first rank that failed (128 + signal where a signal ended it); ``rank``:
    which."""

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


class ProgramNetwork(FromParts):
    """The network with listeners and a process group, inside the sandbox where it is on this machine; a context
    manager.

    ``root``: where the subfiles lie, a directory for each I/O node and a link ``p1``, ``p2``, ... to each; over several
    ``machines`` on each one's own disk.
    """

    def __init__(
        self,
        placement: Placement,
        root: Path,
        *,
        mtu: int = 9000,
        shape: bool = True,
        timeout_s: float = 2.0,
        machines: MachinesRequest | None = None,
    ) -> None:
        self.placement, self.root = placement, root
        self._mtu, self._shape, self._timeout_s, self._machines = mtu, shape, timeout_s, machines
        self._ranks: ProgramGroup | None = None

    @property
    def net(self) -> EmulatedNetwork:
        """The network, where it is on this machine."""
        assert isinstance(self.platform, Here)
        return self.platform.network

    def _build(self, parts: ExitStack) -> None:
        placement = self.placement
        make_directories(self.root, placement)
        options: Json = {"mtu": self._mtu, "shape": self._shape, "controlled": False}
        platform = parts.enter_context(
            network_up(self._machines, wire(placement.network), lambda _: None, **options)
        )
        self.platform: Platform = platform
        parts.enter_context(platform.running(self._until_now))
        platform.all(add_all_neighbours)
        with closing(CircuitSwitchboard(platform, ())) as switchboard:
            switchboard.change_rules(file_rules(platform.wiring, placement), "add")
        paths = placement.remote
        platform.route(
            r for pair, path in paths.items() for r in pair_routes(platform.wiring, pair, path)
        )
        self._server = GroupServer(group_address(platform), len(placement.compute))
        parts.callback(self._server.close)
        key, root = new_key(), self.root.absolute()
        io = [
            tuple(n for n in placement.io if platform.machine_of(n) == k)
            for k in range(len(platform.names))
        ]
        shares = [
            ProgramShare(
                placement=placement, io=own, root=root, key=key, group=self._server.address
            )
            for own in io
        ]
        requested = [platform.call(k, start_program_share, share) for k, share in enumerate(shares)]
        self._surroundings: list[dict[str, str]] = [one.result() for one in requested]

    def places(self) -> tuple[Place, ...]:
        """One a rank."""
        around = [
            self._surroundings[self.platform.machine_of(node)] for node in self.placement.compute
        ]
        return places_of(self.platform.wiring, self.placement, self._timeout_s, around)

    def run(
        self, command: Sequence[str], *, prefixed: bool = False, time_limit_s: float | None = None
    ) -> ProgramEnd:
        """Run the command once a rank, from this directory, until all have ended or one has failed.

        ``prefixed``: every line of output begins with its rank. Raises InputError where the command cannot be started.
        """
        with self._started(command, prefixed) as ranks:
            self._ranks = ranks
            return end_of(ranks, self._server, time_limit_s)

    def _started(self, command: Sequence[str], prefixed: bool) -> ProgramGroup:
        platform, places = self.platform, self.places()
        if isinstance(platform, Here):
            return ProgramGroup(start_ranks(platform.network, places, command), prefixed=prefixed)
        from testbed.machines.adapters.remote_program import programs_in_hosts

        started = {"argv": list(command), "cwd": str(Path.cwd())}
        requested = [
            (
                platform.machine_of(place.node),
                {"host": place.node, **started, "env": dict(place.environment)},
            )
            for place in places
        ]
        programs = programs_in_hosts(platform, requested)
        return ProgramGroup(programs, prefixed=prefixed, check=platform.machines.check)

    def _until_now(self) -> dict[str, object]:
        """The ranks that had begun when a machine died, and those that had ended, with their exit codes."""
        if self._ranks is None:
            return {"ranks": 0, "ranks_ended": {}}
        ended = {str(rank): code for rank, code in sorted(self._ranks.ended.items())}
        return {"ranks": len(self._ranks.programs), "ranks_ended": ended}


def end_of(ranks: ProgramGroup, group: GroupServer, time_limit_s: float | None) -> ProgramEnd:
    """Wait for the ranks; where one failed because another did, that one is named."""
    rank, code = ranks.wait(time_limit_s)
    broke = group.failed_rank
    if rank is not None and broke is not None and broke != rank:
        rank, code = ranks.cause(broke) or (rank, code)
    return ProgramEnd(exit_code=code, rank=rank)


def places_of(
    wiring: Wiring, placement: Placement, timeout_s: float, around: Sequence[Mapping[str, str]]
) -> tuple[Place, ...]:
    """One a rank; ``around``: what each finds in its environment next to its place."""
    names = {file_host(name): node for name, node in placement.names.items()}
    listeners = ",".join(
        f"{name}={wiring.host_at(node).ip}:{LISTENER_PORT}" for name, node in names.items()
    )
    return tuple(
        Place(
            rank=rank,
            node=node,
            host=wiring.host_at(node).name,
            ip=wiring.host_at(node).ip,
            environment={
                **own,
                "SFIO_RANK": str(rank),
                "SFIO_SIZE": str(len(placement.compute)),
                "SFIO_LISTENERS": listeners,
                "SFIO_TIMEOUT_S": f"{timeout_s:g}",
            },
        )
        for rank, (node, own) in enumerate(zip(placement.compute, around, strict=True))
    )


def file_rules(wiring: Wiring, placement: Placement) -> tuple[FlowRule, ...]:
    """Requests and answers of striped files over the network's own static paths, whatever way other packets go."""
    paths = placement.remote
    back = (rule for pair, path in paths.items() for rule in return_rules(wiring, pair, path))
    return (*packet_switching_rules(wiring, paths), *back)


def start_ranks(
    net: EmulatedNetwork, places: Sequence[Place], command: Sequence[str]
) -> list[ChildProgram]:
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
