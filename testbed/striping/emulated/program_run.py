"""A parallel program on a network of switches, with one process per compute node.

Each process is inside its host's namespaces, and listeners serve the subfiles. Over several
machines, each rank and each listener is on the machine of its host, and all ranks are one group.
Environment variables tell the ranks the addresses of the group and the listeners. If one rank
fails, the others are ended. All processes end with the program.
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
from testbed.openflow.rules import FlowRule, HostRoute
from testbed.striping.emulated.machine_ends import LISTENER_PORT, ListenerProcess
from testbed.striping.placement import Placement, encoded_node_name
from topologies import Json

# The time limit of a connection to the coordinator of the group.
_JOIN_S = 30.0


@dataclass(frozen=True, kw_only=True)
class ProgramShare:
    """A machine's part of a program of ``testbed run``.

    Attributes:
        placement: The compute and the I/O nodes of all machines.
        io: The I/O nodes on this machine.
        root: The directory of the subfiles on this machine.
        key: The key of the run.
        group: The address of the server of the group of all ranks.
    """

    placement: Placement
    io: tuple[str, ...]
    root: Path
    key: bytes
    group: str


def start_program_share(machine: MachineState, share: ProgramShare) -> dict[str, str]:
    """Start the listeners of the I/O nodes on this machine.

    If the coordinator is on another machine, ranks reach the group through a socket on this
    machine, because their hosts have no other path to it.

    Returns:
        The environment variables of every rank on this machine.
    """
    built = machine.objects["built"]
    group_socket = group_listener()
    make_directories(share.root, share.placement)
    if share.io:
        listeners = ListenerProcess(network_of(machine), share.io, share.root, share.key)
        built.callback(listeners.close)
    if share.group.startswith("tcp:"):
        listening = built.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
        listening.bind(str(group_socket))
        listening.listen(len(share.placement.compute))
        built.callback(group_socket.unlink, missing_ok=True)
        _, host, port = share.group.split(":")
        accept_each(listening, partial(_forward_to_group, (host, int(port))))
    key_file = Path(tempfile.mkdtemp(prefix="key-", dir=require_sandbox() / "tmp")) / "key"
    write_key(key_file, share.key)
    return {
        "SFIO_GROUP": f"unix:{group_socket}",
        "SFIO_KEY_FILE": str(key_file),
        "PATH": f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}",
        "PYTHONUNBUFFERED": "1",
    }


def group_listener() -> Path:
    """Return the path of the socket of the group of all ranks, in this machine's sandbox."""
    return require_sandbox() / "tmp" / "group"


def group_address(platform: Platform) -> str:
    """Return the address at which the coordinator has the group of all ranks.

    It is a socket in this sandbox, or one that other machines reach.
    """
    if isinstance(platform, Here):
        return f"unix:{group_listener()}"
    return f"tcp:{listen_address(platform.machines.facts[0].address)}:0"


def make_directories(root: Path, placement: Placement) -> None:
    """Make a folder for each I/O node, and a symbolic link for each alias.

    Args:
        root: The directory of the folders.
        placement: The I/O nodes.

    Raises:
        InputError: The folders cannot be made.
    """
    try:
        for node in placement.io:
            (root / encoded_node_name(node)).mkdir(parents=True, exist_ok=True)
        for alias, node in placement.aliases.items():
            link = root / alias
            if link.is_symlink() or not link.exists():
                link.unlink(missing_ok=True)
                # Another machine of the run may have made the link meanwhile.
                with contextlib.suppress(FileExistsError):
                    link.symlink_to(encoded_node_name(node))
    except OSError as error:
        raise InputError(
            f"--subfile-dir {root}: {error.strerror}; choose a directory that can be written"
        ) from None


def _forward_to_group(address: tuple[str, int], member: socket.socket) -> None:
    """Forward a rank's connection to the coordinator until it ends."""
    with member, suppress(OSError), socket.create_connection(address, _JOIN_S) as sock:
        copy_both_directions(sock, member.fileno(), member.fileno())


@dataclass(frozen=True, kw_only=True)
class ProgramEnd:
    """The end of a program.

    Attributes:
        exit_code: 0, or the exit code of the first rank that failed. It is 128 + the signal if a
            signal ended the rank.
        rank: The first rank that failed, or None.
    """

    exit_code: int
    rank: int | None


@dataclass(frozen=True, kw_only=True)
class Place:
    """The host of a rank.

    Attributes:
        rank: The rank.
        node: Its compute node.
        host: The name of the emulated host.
        ip: The IP address of the host.
        environment: The environment variables of the rank.
    """

    rank: int
    node: str
    host: str
    ip: str
    environment: Mapping[str, str]


class ProgramNetwork(FromParts):
    """A network with listeners and a process group, as a context manager.

    If it is on this machine, the caller must be inside the sandbox.
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
        """Prepare the network.

        Args:
            placement: The compute and the I/O nodes.
            root: The directory of the subfiles, which gets a folder for each I/O node and a link
                ``p1``, ``p2``, ... to each. Each machine has its own.
            mtu: The size of a packet in bytes.
            shape: Whether links are limited to their rates.
            timeout_s: How long ranks wait for a silent listener.
            machines: The machines. None: this machine alone.
        """
        self.placement = placement
        self.root = root
        self._mtu = mtu
        self._shape = shape
        self._timeout_s = timeout_s
        self._machines = machines
        self._ranks: ProgramGroup | None = None

    @property
    def net(self) -> EmulatedNetwork:
        """The network, which must be on this machine."""
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
        routes: list[HostRoute] = []
        for pair, path in placement.remote.items():
            routes += pair_routes(platform.wiring, pair, path)
        platform.route(routes)
        self._server = GroupServer(group_address(platform), len(placement.compute))
        parts.callback(self._server.close)
        self._surroundings = self._start_shares(self._server.address)

    def _start_shares(self, group: str) -> list[dict[str, str]]:
        """Start the listeners on all machines, and return the environment of their ranks."""
        platform = self.platform
        key = new_key()
        requests = []
        for machine in range(len(platform.names)):
            io = [node for node in self.placement.io if platform.machine_of(node) == machine]
            share = ProgramShare(
                placement=self.placement,
                io=tuple(io),
                root=self.root.absolute(),
                key=key,
                group=group,
            )
            requests.append(platform.call(machine, start_program_share, share))
        return [request.result() for request in requests]

    def places(self) -> tuple[Place, ...]:
        """Return the emulated host and the environment of each rank."""
        environments = []
        for node in self.placement.compute:
            environments.append(self._surroundings[self.platform.machine_of(node)])
        return places_of(self.platform.wiring, self.placement, self._timeout_s, environments)

    def run(
        self, command: Sequence[str], *, prefixed: bool = False, time_limit_s: float | None = None
    ) -> ProgramEnd:
        """Run the command once per rank until all have ended, or one has failed.

        The ranks have the working directory of this process.

        Args:
            command: The command line.
            prefixed: Whether every line of output begins with its rank.
            time_limit_s: The time after which the ranks are ended. None: no limit.

        Raises:
            InputError: The command cannot be started.
        """
        with self._started(command, prefixed) as ranks:
            self._ranks = ranks
            return end_of(ranks, self._server, time_limit_s)

    def _started(self, command: Sequence[str], prefixed: bool) -> ProgramGroup:
        platform = self.platform
        places = self.places()
        if isinstance(platform, Here):
            return ProgramGroup(start_ranks(platform.network, places, command), prefixed=prefixed)
        from testbed.machines.adapters.remote_program import programs_in_hosts

        requests = []
        for rank in places:
            program = {
                "host": rank.node,
                "argv": list(command),
                "cwd": str(Path.cwd()),
                "env": dict(rank.environment),
            }
            requests.append((platform.machine_of(rank.node), program))
        programs = programs_in_hosts(platform, requests)
        return ProgramGroup(programs, prefixed=prefixed, check=platform.machines.check)

    def _until_now(self) -> dict[str, object]:
        """Return the number of ranks that began, and the exit codes of those that ended."""
        if self._ranks is None:
            return {"ranks": 0, "ranks_ended": {}}
        ended = {str(rank): code for rank, code in sorted(self._ranks.ended.items())}
        return {"ranks": len(self._ranks.programs), "ranks_ended": ended}


def end_of(ranks: ProgramGroup, group: GroupServer, time_limit_s: float | None) -> ProgramEnd:
    """Wait for the ranks, and return the end of the program.

    If a rank failed because another one had failed, the other one is named.

    Args:
        ranks: The processes.
        group: The server of their group.
        time_limit_s: The time after which the ranks are ended. None: no limit.
    """
    rank, code = ranks.wait(time_limit_s)
    first_failed = group.failed_rank
    if rank is not None and first_failed is not None and first_failed != rank:
        rank, code = ranks.cause(first_failed) or (rank, code)
    return ProgramEnd(exit_code=code, rank=rank)


def places_of(
    wiring: Wiring,
    placement: Placement,
    timeout_s: float,
    environments: Sequence[Mapping[str, str]],
) -> tuple[Place, ...]:
    """Return the emulated host and the environment of each rank.

    Args:
        wiring: The emulated hosts.
        placement: The compute and the I/O nodes.
        timeout_s: How long ranks wait for a silent listener.
        environments: Further environment variables of each rank.
    """
    listeners = []
    for name, node in placement.names.items():
        listeners.append(f"{encoded_node_name(name)}={wiring.host_at(node).ip}:{LISTENER_PORT}")
    places = []
    for rank, (node, environment) in enumerate(zip(placement.compute, environments, strict=True)):
        variables = {
            **environment,
            "SFIO_RANK": str(rank),
            "SFIO_SIZE": str(len(placement.compute)),
            "SFIO_LISTENERS": ",".join(listeners),
            "SFIO_TIMEOUT_S": f"{timeout_s:g}",
        }
        host = wiring.host_at(node)
        places.append(
            Place(rank=rank, node=node, host=host.name, ip=host.ip, environment=variables)
        )
    return tuple(places)


def file_rules(wiring: Wiring, placement: Placement) -> tuple[FlowRule, ...]:
    """Return the rules of requests and answers of striped files.

    They take the network's own static paths, independently of other packets.
    """
    paths = placement.remote
    rules = [*packet_switching_rules(wiring, paths)]
    for pair, path in paths.items():
        rules += return_rules(wiring, pair, path)
    return tuple(rules)


def start_ranks(
    net: EmulatedNetwork, places: Sequence[Place], command: Sequence[str]
) -> list[ChildProgram]:
    """Start the command in the host of each rank, with its environment.

    Raises:
        OSError: The command cannot be started.
    """
    programs = []
    for rank in places:
        process = net.run_in_host(
            rank.host,
            confined(command),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, **rank.environment},
        )
        programs.append(ChildProgram(process))
    return programs
