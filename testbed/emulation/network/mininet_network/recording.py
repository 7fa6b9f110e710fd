"""Mininet on requests that nobody carries out, so that a program says what it builds: no process, namespace, interface
or command of it is made.

For a process of its own that ends afterwards: what else of Python and Mininet starts programs, or waits, is replaced. A
program runs until it would use its network. Links are taken as they are when the network starts; addresses and
forwarding, which many programs set afterwards, as they are in the end.
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
import mininet.link
import mininet.net
import mininet.node
import mininet.nodelib
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
# The largest number that Linux gives a process is one less.
_NO_PROCESS = 1 << 22
_QUIET = re.compile(r"ifconfig lo up|ethtool -K .*|sysctl net\.ipv6\..*|sysctl -n .*")
"""Commands that Mininet gives by itself."""


class EndOfBuilding(BaseException):
    """The program has built its network; BaseException, so that its own ``except Exception`` lets it pass."""


class RecordedRequests(Requests):
    """Of a topology that is read: commands are noted as (node, command), and say nothing. ``notes``: what of it is not
    taken over."""

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
        """Give interfaces the addresses that a command gives them, and return whether that is all.

        A second address of an interface is left to the note: ``ip address add`` leaves the first.
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
        """Take a command over that switches forwarding on or off, and return whether it does."""
        forwards = forwarding_of_command(command)
        if forwards is None:
            return False
        self.set_sysctl(who, FORWARDING, "1" if forwards else "0")
        return True

    def forwards(self, host: str) -> bool:
        """Return whether the last setting of the host says that it forwards."""
        settings = [
            forwarding_of_command(f"sysctl {name}={value}")
            for who, name, value in self.sysctls
            if who == host
        ]
        return next((one for one in reversed(settings) if one is not None), False)

    def note(self, who: str, *words: object) -> None:
        """A command that is not run."""
        listed = words[0] if len(words) == 1 and isinstance(words[0], list | tuple) else words
        text = " ".join(map(str, listed)).strip()
        if self._set_forwarding(who, text):
            return
        node = _node_of(who)
        if node is not None and self._set_addresses(node, text):
            return
        if not _QUIET.fullmatch(text):
            self.commands.append((who, text))

    def add_directory(self, host: str, seen: str, source: str) -> None:
        """Not in what is read."""
        note = f"{host}: no private directories here; it sees those of all"
        self.notes += [note] if note not in self.notes else []

    def close(self) -> None:
        """What was noted stays."""


class RecordedMininet(ScriptedMininet):
    """A network that notes what is requested.

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
        ours = options | {"xterms": False, "cleanup": False, "waitConnected": False}
        super().__init__(*args, requests=Requests.current, **ours)

    def addHost(self, name: str, cls: type | None = None, **params: object) -> Node:  # noqa: N802 - Mininet's name
        self.stated[name] = params
        return super().addHost(name, cls, **params)

    def addSwitch(self, name: str, cls: type | None = None, **params: object) -> Node:  # noqa: N802 - Mininet's name
        """An Open vSwitch one, whatever its class, and with whatever name."""
        kind, notes = late(cls or self.switch), self.requests.notes
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
        """With the MAC addresses that the program gives: Mininet draws others."""
        link = super().addLink(*args, **params)
        link.stated = {name: params[name] for name in ("addr1", "addr2") if params.get(name)}
        return link

    def addNAT(self, name: str = "nat0", connect: object = True, **_: object) -> Node:  # noqa: N802 - Mininet's name
        """Add a host that forwards."""
        self.requests.notes.append(f"{name} is an ordinary host: nothing leads out of the sandbox")
        made = self.addHost(name)
        self.requests.set_sysctl(name, FORWARDING, "1")
        self.addLink(made, self.switches[0] if connect is True else connect)
        return made

    def start(self) -> None:
        """Note the parameters of the links: the program has built its network."""
        if not self.built:
            self.build()
        for link in self.links:
            for intf in (link.intf1, link.intf2):
                self.ends_at_start[intf] = parameters_of(intf)
        if RecordedMininet.started is None:
            RecordedMininet.started = self
            self.requests.limit_time()

    def stop(self) -> None:
        """End the reading of a program that has used its network."""
        if RecordedMininet.started is not None:
            raise EndOfBuilding


def _node_of(name: str) -> Node | None:
    """Return the node that a network of the program has under this name, or None."""
    nodes = (network.nameToNode.get(name) for network in RecordedMininet.networks)
    return next((node for node in nodes if node is not None), None)


def parameters_of(intf: Intf) -> dict[str, Any]:
    """Return the parameters of one end of a link, and whether it is down."""
    values = getattr(intf, "values", {})
    return {**intf.params, **values, "down": vars(intf).get("is_down", False)}


class _Program(subprocess.Popen):  # type: ignore[type-arg]
    """A program that was not run: it has ended well, and printed nothing."""

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

    def communicate(self, input: object = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Return the empty outputs that were requested."""
        outputs = [None if file is None else file.read() for file in (self.stdout, self.stderr)]
        return outputs[0], outputs[1]

    def send_signal(self, sig: int) -> None:
        """Do nothing: the program has ended."""


def install() -> RecordedRequests:
    """Take Mininet's place, and that of what else of Python starts programs or waits; what will be noted."""
    requests = Requests.current = RecordedRequests()
    mininet.net.Mininet = RecordedMininet
    setattr(nodes, "warn", lambda text: requests.notes.append(text.strip("* \n")))  # noqa: B010 - not exported
    _silence(RecordedMininet, _nothing, "configureControlNetwork", "startTerms", "staticArp")
    _silence(RecordedMininet, _end, "ping", "pingFull", "iperf", "run", "monitor", "interact")
    _silence(mininet.cli.CLI, _end, "__init__")
    _replace_nodes(requests)
    for module in (mininet.util, mininet.net, mininet.node):
        module.numCores = lambda: 1
    for module in (subprocess, mininet.util, mininet.node, mininet.clean):
        setattr(module, "Popen", _Program)  # noqa: B010 - a program, to every other module
    mininet.clean.cleanup = mininet.clean.Cleanup.cleanup = _nothing
    os.system = lambda command: _Program(command).wait()
    pauses = itertools.count()
    time.sleep = lambda *_: _end() if _is_loop(pauses) else None
    os.fork = lambda: _NO_PROCESS
    return requests


def _replace_nodes(requests: RecordedRequests) -> None:
    """Of every node, those too that a program makes by itself, outside a network."""

    def said(self: Node, *words: object, **_: object) -> str:
        return requests.answer(
            self, " ".join(map(str, words[0] if isinstance(words[0], list) else words))
        )

    def popen(self: Node, words: object, **options: object) -> _Program:
        return _Program(words, who=self.given, **options)

    Node.cmd, Node.host, Node.given = said, None, cached_property(lambda self: self.name)
    Node.given.__set_name__(Node, "given")
    Node.requests = LateShell.requests = requests
    Node.checkSetup = classmethod(_nothing)
    _silence(
        LateNode,
        lambda self, intf=None: setattr(self, "default_route", str(intf)),
        "setDefaultRoute",
    )
    for kind in (Node, LateShell):
        _silence(kind, said, "sendCmd")
        _silence(kind, popen, "_popen")
        _silence(kind, _nothing, "startShell", "terminate", "write", "sendInt")
        _silence(kind, lambda *_, **__: "", "read", "monitor", "waitOutput", "readline")
    NAT.config = _config_nat
    _record_interfaces(requests)
    Intf.isUp = lambda *_, **__: True
    for one in vars(mininet.node).values():
        if isinstance(one, type) and issubclass(one, Controller):
            _silence(one, _nothing, "checkListening", "start", "stop")
    mininet.node.findController = lambda *_: Controller


def _is_loop(pauses: Iterator[int]) -> bool:
    """Count a pause, and return whether the program has paused too often since it started its network."""
    return RecordedMininet.started is not None and next(pauses) > _MAX_PAUSES


def _config_nat(self: NAT, **params: object) -> object:
    """Configure a NAT as a host that forwards."""
    assert isinstance(Requests.current, RecordedRequests)
    name = self.given
    Requests.current.set_sysctl(name, FORWARDING, "1")
    Requests.current.notes.append(f"{name} forwards, and translates no addresses (NAT)")
    return Node.config(self, **params)


def _record_interfaces(requests: RecordedRequests) -> None:
    """Note the MAC addresses that interfaces are given, and which interfaces are taken down."""
    set_mac = Intf.setMAC
    ifconfig = Intf.ifconfig

    def noted_mac(self: Intf, macstr: str) -> object:
        self.stated_mac = macstr
        return set_mac(self, macstr)

    def noted_status(self: Intf, *args: object) -> object:
        if args in (("up",), ("down",)):
            self.is_down = args == ("down",)
            if self.is_down and RecordedMininet.started is not None:
                note = f"{self.name} is taken down while the program runs; here it stays up"
                requests.notes.append(note)
        return ifconfig(self, *args)

    Intf.setMAC = noted_mac
    Intf.ifconfig = noted_status


def _silence(kind: type, instead: Callable[..., object], *names: str) -> None:
    for name in names:
        setattr(kind, name, instead)


def _nothing(*_: object, **__: object) -> None:
    return None


def _end(*_: object, **__: object) -> NoReturn:
    raise EndOfBuilding
