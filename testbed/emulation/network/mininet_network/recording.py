"""Records what a Mininet program builds, without building it.

No process, namespace or interface is created, and no command of the program is run.

The module is for a process of its own that ends afterwards, because it replaces everything in
Python and Mininet that starts programs or waits. A program runs until it would use its network. Its
links are recorded as they are when the network starts. Addresses and forwarding, which many
programs set afterwards, are recorded as they are in the end.
"""

import itertools
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import IO, Any, ClassVar, NoReturn

import mininet.clean
import mininet.cli
import mininet.net
import mininet.node
import mininet.util
from mininet.link import Intf
from mininet.node import Controller, Node, OVSSwitch
from mininet.nodelib import NAT

from testbed.emulation.network.mininet_network import nodes
from testbed.emulation.network.mininet_network.net import ScriptedMininet
from testbed.emulation.network.mininet_network.nodes import LateNode, late
from testbed.emulation.network.mininet_network.requests import Requests
from testbed.emulation.network.mininet_network.shell import LateShell
from topologies.mininet.address_commands import address_commands
from topologies.mininet.topo import forwarding_of_command

FORWARDING = "net.ipv4.ip_forward"

# Calls of time.sleep after the start of the network, after which a program is in a loop.
_MAX_PAUSES = 200

# A process id that does not exist: the largest one in Linux is one less.
_NO_PROCESS = 1 << 22

# Commands that Mininet itself gives, which are not worth a note.
_QUIET = re.compile(r"ifconfig lo up|ethtool -K .*|sysctl net\.ipv6\..*|sysctl -n .*")


class EndOfBuilding(BaseException):
    """The program has built its network.

    It is a BaseException, so that an ``except Exception`` of the program does not catch it.
    """


class RecordedRequests(Requests):
    """The requests of a program that is read.

    Attributes:
        commands: Commands that are not run, as pairs of the node's name and the command.
        notes: What of the network is not taken over, as sentences for the user.
        limit_time: Called when the program has started its network.
    """

    makes_devices = False

    def __init__(self) -> None:
        super().__init__()
        self.commands: list[tuple[str, str]] = []
        self.notes: list[str] = []
        self.limit_time: Callable[[], None] = _nothing

    def answer(self, node: Node, command: str) -> str:
        """Note a command of a node, or carry it out if it is a setting; return its empty output."""
        if not self._set_addresses(node, command):
            self.note(node.given, command)
        return ""

    def _set_addresses(self, node: Node, command: str) -> bool:
        """Give interfaces the addresses in a command, and return whether that is all it does.

        A second address of an interface is left to the note: ``ip address add`` keeps the first.
        """
        commands = address_commands(command) or []
        if any(entry.interface not in node.nameToIntf for entry in commands):
            return False
        for entry in commands:
            intf = node.nameToIntf[entry.interface]
            ip, _, length = entry.address.partition("/")
            if not entry.replaces and intf.ip not in (None, ip):
                return False
            intf.ip = ip
            intf.prefixLen = length
        return bool(commands)

    def _set_forwarding(self, who: str, command: str) -> bool:
        """Take over a command that switches forwarding on or off, and return whether it does."""
        forwards = forwarding_of_command(command)
        if forwards is None:
            return False
        value = "1" if forwards else "0"
        self.set_sysctl(who, FORWARDING, value)
        return True

    def forwards(self, host: str) -> bool:
        """Return whether the host forwards, according to its last setting."""
        for who, name, value in reversed(self.sysctls):
            if who == host:
                forwards = forwarding_of_command(f"sysctl {name}={value}")
                if forwards is not None:
                    return forwards
        return False

    def note(self, who: str, *command: object) -> None:
        """Note a command that is not run, unless it is a setting that is taken over.

        Args:
            who: The node that would run it.
            command: The command and its arguments, or one list of them.
        """
        is_list = len(command) == 1 and isinstance(command[0], list | tuple)
        parts: Any = command[0] if is_list else command
        text = " ".join(map(str, parts)).strip()
        if self._set_forwarding(who, text):
            return
        node = _node_of(who)
        if node is not None and self._set_addresses(node, text):
            return
        if not _QUIET.fullmatch(text):
            self.commands.append((who, text))

    def add_directory(self, host: str, mount_point: str, source: str) -> None:
        """Note that the host has no private directory."""
        note = f"{host}: no private directories here; it sees those of all"
        if note not in self.notes:
            self.notes.append(note)

    def close(self) -> None:
        """Do nothing: the records are still needed."""


class RecordedMininet(ScriptedMininet):
    """A network that records what is requested.

    Attributes:
        networks: All networks of the program.
        started: The network that the program started first.
        stated: The parameters of each host.
        ends_at_start: The parameters of the ends of each link when the network was started.
    """

    networks: ClassVar[list["RecordedMininet"]] = []
    started: ClassVar["RecordedMininet | None"] = None
    requests: RecordedRequests

    def __init__(self, *args: object, **options: object) -> None:
        self.networks.append(self)
        self.stated: dict[str, dict[str, Any]] = {}
        self.ends_at_start: dict[Intf, dict[str, Any]] = {}
        # These would start programs or wait.
        harmless = options | {"xterms": False, "cleanup": False, "waitConnected": False}
        super().__init__(*args, requests=Requests.current, **harmless)

    def addHost(  # noqa: N802 - Mininet's name
        self, name: str, cls: type | None = None, **params: object
    ) -> Node:
        """Add a host, and record its parameters."""
        self.stated[name] = params
        return super().addHost(name, cls, **params)

    def addSwitch(  # noqa: N802 - Mininet's name
        self, name: str, cls: type | None = None, **params: object
    ) -> Node:
        """Add an Open vSwitch, whatever its class and name."""
        kind = late(cls or self.switch)
        notes = self.requests.notes
        if isinstance(kind, type) and not issubclass(kind, LateNode):
            notes.append(f"{name} is made as any switch, not by {kind.__name__}")
            kind = OVSSwitch
        switch = super().addSwitch(name, kind, **params)
        if not re.search(r"\d", name) and not switch.given_dpid:
            notes.append(
                f"{name}: Mininet itself refuses a switch without a number or dpid; it is numbered"
            )
        return switch

    def addLink(self, *args: object, **params: object) -> object:  # noqa: N802 - Mininet's name
        """Add a link, and record MAC addresses that the program gives; Mininet draws the others."""
        link = super().addLink(*args, **params)
        link.stated = {name: params[name] for name in ("addr1", "addr2") if params.get(name)}
        return link

    def addNAT(  # noqa: N802 - Mininet's name
        self, name: str = "nat0", connect: object = True, **_: object
    ) -> Node:
        """Add a host that forwards."""
        self.requests.notes.append(f"{name} is an ordinary host: nothing leads out of the sandbox")
        host = self.addHost(name)
        self.requests.set_sysctl(name, FORWARDING, "1")
        neighbour = self.switches[0] if connect is True else connect
        self.addLink(host, neighbour)
        return host

    def start(self) -> None:
        """Record the parameters of the links, because the program has built its network."""
        if not self.built:
            self.build()
        for link in self.links:
            for intf in (link.intf1, link.intf2):
                self.ends_at_start[intf] = parameters_of(intf)
        if RecordedMininet.started is None:
            RecordedMininet.started = self
            self.requests.limit_time()

    def stop(self) -> None:
        """End the program, which has used its network."""
        if RecordedMininet.started is not None:
            raise EndOfBuilding


def _node_of(name: str) -> Node | None:
    """Return the node that a network of the program has under this name, or None."""
    for network in RecordedMininet.networks:
        node = network.nameToNode.get(name)
        if node is not None:
            return node
    return None


def parameters_of(intf: Intf) -> dict[str, Any]:
    """Return the parameters of one end of a link, and whether it is down."""
    values = getattr(intf, "values", {})
    return {**intf.params, **values, "down": vars(intf).get("is_down", False)}


class _Program(subprocess.Popen):  # type: ignore[type-arg]
    """A program that was not run: it has ended successfully, and printed nothing."""

    def __init__(
        self,
        args: object,
        *_: object,
        who: str = "the file",
        stdin: object = None,
        stdout: object = None,
        stderr: object = None,
        **options: Any,
    ) -> None:
        assert isinstance(Requests.current, RecordedRequests)
        Requests.current.note(who, args)
        self.args: Any = args
        self.pid = _NO_PROCESS
        self.returncode = 0
        text_options = ("text", "universal_newlines", "encoding", "errors")
        self._mode = "" if any(options.get(name) for name in text_options) else "b"
        self.stdin = None
        if stdin == subprocess.PIPE:
            self.stdin = open(os.devnull, f"w{self._mode}")  # noqa: SIM115 - the caller closes it
        self.stdout = self._output(stdout)
        self.stderr = self._output(stderr)

    def _output(self, requested: object) -> IO[Any] | None:
        """Return a pipe with nothing in it, which callers may poll, if one was requested."""
        if requested != subprocess.PIPE:
            return None
        reading, writing = os.pipe()
        os.close(writing)
        return open(reading, f"r{self._mode}")

    def poll(self) -> int:
        """Return the exit code."""
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code."""
        return self.returncode

    def communicate(self, *_: object, **__: object) -> tuple[Any, Any]:
        """Return the empty outputs that were requested."""
        output = None if self.stdout is None else self.stdout.read()
        errors = None if self.stderr is None else self.stderr.read()
        return output, errors

    def send_signal(self, sig: int) -> None:
        """Do nothing: the program has ended."""


def install() -> RecordedRequests:
    """Replace Mininet, and everything in Python that starts programs or waits.

    Returns:
        The requests in which the network is recorded.
    """
    requests = RecordedRequests()
    Requests.current = requests
    mininet.net.Mininet = RecordedMininet

    def note_warning(text: str) -> None:
        requests.notes.append(text.strip("* \n"))

    # The name is not exported, so an assignment would be an error for mypy.
    setattr(nodes, "warn", note_warning)  # noqa: B010
    _replace(RecordedMininet, _nothing, "configureControlNetwork", "startTerms", "staticArp")
    _replace(RecordedMininet, _end, "ping", "pingFull", "iperf", "run", "monitor", "interact")
    _replace(mininet.cli.CLI, _end, "__init__")
    _replace_nodes(requests)
    for module in (mininet.util, mininet.net, mininet.node):
        module.numCores = lambda: 1
    for module in (subprocess, mininet.util, mininet.node, mininet.clean):
        setattr(module, "Popen", _Program)  # noqa: B010 - a program, to every other module
    mininet.clean.Cleanup.cleanup = _nothing
    mininet.clean.cleanup = _nothing
    os.system = lambda command: _Program(command).wait()
    os.fork = lambda: _NO_PROCESS
    pauses = itertools.count()

    def sleep(*_: object) -> None:
        """Return at once, unless the program waits in a loop."""
        if _is_loop(pauses):
            _end()

    time.sleep = sleep
    return requests


def _replace_nodes(requests: RecordedRequests) -> None:
    """Let every node record its commands, even nodes that a program creates outside a network."""

    def answer(self: Node, *words: object, **_: object) -> str:
        parts = words[0] if isinstance(words[0], list) else words
        return requests.answer(self, " ".join(map(str, parts)))

    def popen(self: Node, words: object, **options: object) -> _Program:
        return _Program(words, who=self.given, **options)

    def set_default_route(self: Node, intf: object = None) -> None:
        self.default_route = str(intf)

    def no_output(*_: object, **__: object) -> str:
        return ""

    Node.cmd = answer
    Node.host = None
    Node.given = cached_property(lambda self: self.name)
    # Only a class statement does this by itself.
    Node.given.__set_name__(Node, "given")
    Node.requests = requests
    LateShell.requests = requests
    Node.checkSetup = classmethod(_nothing)
    _replace(LateNode, set_default_route, "setDefaultRoute")
    for kind in (Node, LateShell):
        _replace(kind, answer, "sendCmd")
        _replace(kind, popen, "_popen")
        _replace(kind, _nothing, "startShell", "terminate", "write", "sendInt")
        _replace(kind, no_output, "read", "monitor", "waitOutput", "readline")
    NAT.config = _config_nat
    _record_interfaces(requests)
    Intf.isUp = lambda *_, **__: True
    for value in vars(mininet.node).values():
        if isinstance(value, type) and issubclass(value, Controller):
            _replace(value, _nothing, "checkListening", "start", "stop")
    mininet.node.findController = lambda *_: Controller


def _is_loop(pauses: Iterator[int]) -> bool:
    """Count a pause, and return whether there were too many since the network started."""
    return RecordedMininet.started is not None and next(pauses) > _MAX_PAUSES


def _config_nat(self: NAT, **params: object) -> object:
    """Configure a NAT as a host that forwards."""
    assert isinstance(Requests.current, RecordedRequests)
    name = self.given
    Requests.current.set_sysctl(name, FORWARDING, "1")
    Requests.current.notes.append(f"{name} forwards, and translates no addresses (NAT)")
    return Node.config(self, **params)


def _record_interfaces(requests: RecordedRequests) -> None:
    """Record the MAC addresses that interfaces get, and which interfaces are set down."""
    set_mac = Intf.setMAC
    ifconfig = Intf.ifconfig

    def recorded_mac(self: Intf, macstr: str) -> object:
        self.stated_mac = macstr
        return set_mac(self, macstr)

    def recorded_ifconfig(self: Intf, *args: object) -> object:
        if args in (("up",), ("down",)):
            self.is_down = args == ("down",)
            if self.is_down and RecordedMininet.started is not None:
                note = f"{self.name} is taken down while the program runs; here it stays up"
                requests.notes.append(note)
        return ifconfig(self, *args)

    Intf.setMAC = recorded_mac
    Intf.ifconfig = recorded_ifconfig


def _replace(kind: type, replacement: Callable[..., object], *names: str) -> None:
    """Replace attributes of a class."""
    for name in names:
        setattr(kind, name, replacement)


def _nothing(*_: object, **__: object) -> None:
    return None


def _end(*_: object, **__: object) -> NoReturn:
    raise EndOfBuilding
