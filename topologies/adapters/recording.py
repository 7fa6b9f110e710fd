"""Mininet's classes made to note what a program builds: no process, namespace, interface or command of theirs is made.

For a process of its own that ends afterwards: the classes themselves are changed, so that whatever a program derives
from them is changed with them. A program runs until it starts its network, or would use it.
"""

import os
import re
import subprocess
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import mininet.clean
import mininet.cli
import mininet.link
import mininet.net
import mininet.node
import mininet.nodelib
import mininet.util
from mininet.link import Intf, Link, TCIntf
from mininet.net import Mininet
from mininet.node import Controller, CPULimitedHost, Node, OVSSwitch, Switch, UserSwitch
from mininet.nodelib import NAT

_FORWARD = re.compile(r"ip_forward\s*=\s*1|echo\s+1\s*>\s*\S*ip_forward")
_QUIET = re.compile(r"ifconfig lo up|ethtool -K .*|sysctl net\.ipv6\..*|sysctl -n .*")
"""Commands that Mininet gives by itself."""
_CABLES = re.compile(r"\bip\s+link\s+add\b.*\btype\s+veth\b|\bovs-vsctl\b.*\badd-port\b|\bbrctl\s+addif\b")


class EndOfBuilding(BaseException):
    """The program has built its network; BaseException, so that its own ``except Exception`` lets it pass."""


class Recording:
    """What was noted: ``nets`` in the order of their making, which ``started``, ``commands`` that were not run,
    ``notes``."""

    def __init__(self) -> None:
        self.nets: list[Mininet] = []
        self.started: Mininet | None = None
        self.commands: list[str] = []
        self.cables: list[str] = []
        self.notes: list[str] = []

    def command(self, who: str, *words: Any) -> str:
        """Note a command; nothing comes of it."""
        listed = words[0] if len(words) == 1 and isinstance(words[0], list | tuple) else words
        text = " ".join(map(str, listed)).strip()
        if _CABLES.search(text):
            self.cables.append(f"{who}: {text[:70]}")
        elif not _QUIET.fullmatch(text):
            self.commands.append(f"{who}: {text[:70]}")
        return ""


def install(recording: Recording) -> None:
    """Change Mininet's classes, and what else of Python starts programs or waits."""
    _change_nodes(recording)
    _change_switches_and_controllers(recording)
    _change_links()
    _change_net(recording)
    run = partial(recording.command, "the file")
    for name, answer in (("quietRun", ""), ("errRun", ("", "", 0)), ("errFail", ("", "", 0))):
        for module in (mininet.util, mininet.node, mininet.net, mininet.nodelib, mininet.link):
            if hasattr(module, name):
                setattr(module, name, lambda *words, _answer=answer, **_: (run(*words), _answer)[1])
    for module in (mininet.node, mininet.nodelib):
        module.pathCheck = _nothing
    for module in (mininet.util, mininet.net, mininet.node):
        module.numCores = lambda: 1
    mininet.util.ensureRoot = mininet.util.fixLimits = mininet.net.ensureRoot = mininet.net.fixLimits = _nothing
    mininet.clean.cleanup = mininet.clean.Cleanup.cleanup = _nothing
    mininet.node.findController = lambda *_: Controller
    subprocess.Popen = partial(_EndedProgram, recording)  # type: ignore[assignment,misc]
    os.system = lambda command: (run(command), 0)[1]
    time.sleep = _nothing


def _nothing(*_: Any, **__: Any) -> None:
    return None


def _end(*_: Any, **__: Any) -> NoReturn:
    raise EndOfBuilding


class _EndedProgram:
    """In place of a program that was started: it has ended well and said nothing."""

    returncode, pid, stdin, stdout, stderr = 0, 0, None, None, None

    def __init__(self, recording: Recording, args: Any, *_: Any, **options: Any) -> None:
        recording.command("the file", args)
        self.args = args
        self._empty = "" if any(options.get(name) for name in ("text", "universal_newlines", "encoding")) else b""

    def __enter__(self) -> "_EndedProgram":
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is left to do."""

    def communicate(self, *_: Any, **__: Any) -> tuple[Any, Any]:
        """What it said: nothing."""
        return self._empty, self._empty

    def wait(self, *_: Any, **__: Any) -> int:
        """It has ended."""
        return 0

    poll = wait
    kill = terminate = send_signal = _nothing


def _change_nodes(recording: Recording) -> None:
    def cmd(self: Node, *words: Any, **_: Any) -> Any:
        text = " ".join(map(str, words[0] if len(words) == 1 and isinstance(words[0], list) else words))
        if _FORWARD.search(text):
            self.forwards = True
            return ""
        return recording.command(self.name, *words)

    def popen(self: Node, *words: Any, **options: Any) -> _EndedProgram:
        recording.command(self.name, *words)
        return _EndedProgram(Recording(), words, **options)

    def set_default_route(self: Node, intf: Any = None) -> None:
        self.default_route = str(intf)

    def set_parameter(self: Node, *_: Any, **__: Any) -> None:
        recording.notes.append(f"{self.name}: limits of the processor are left out")

    changes: dict[str, Callable[..., Any]] = {
        "cmd": cmd, "sendCmd": cmd, "cmdPrint": cmd, "popen": popen, "setDefaultRoute": set_default_route,
        "pexec": lambda self, *words, **_: (cmd(self, *words), "", 0),
        "startShell": _nothing, "mountPrivateDirs": lambda self: _no_folders(recording, self),
    }  # fmt: skip
    for name in ("unmountPrivateDirs", "cleanup", "terminate", "stop", "setARP", "setHostRoute", "write", "sendInt"):
        changes[name] = _nothing
    for name in ("read", "monitor", "waitOutput", "readline"):
        changes[name] = lambda *_, **__: ""
    for name, change in changes.items():
        setattr(Node, name, change)
    Node.checkSetup = classmethod(_nothing)
    CPULimitedHost.__init__ = lambda self, name, sched="cfs", **params: Node.__init__(self, name, **params)
    CPULimitedHost.popen, CPULimitedHost.cleanup = popen, _nothing
    CPULimitedHost.setCPUFrac = CPULimitedHost.setCPUs = set_parameter
    NAT.config = lambda self, **params: Node.config(self, **params)


def _no_folders(recording: Recording, node: Node) -> None:
    if node.privateDirs:
        recording.notes.append(f"{node.name}: private directories are left out")


def _change_switches_and_controllers(recording: Recording) -> None:
    known = Switch.defaultDpid

    def datapath_id(self: Switch, dpid: str | None = None) -> str:
        self.given_dpid = dpid
        if dpid is None and not re.search(r"\d", self.name):
            recording.notes.append(
                f"{self.name}: Mininet itself refuses a switch without a number or dpid; it is numbered"
            )
            return "0" * 16
        return str(known(self, dpid))

    Switch.defaultDpid = datapath_id
    for kind in (Switch, OVSSwitch, UserSwitch):
        kind.start = kind.stop = kind.sendCmd = _nothing
        kind.connected = lambda *_: True
        kind.setup = classmethod(_nothing)
    UserSwitch.__init__ = lambda self, name, dpopts="", **params: Switch.__init__(self, name, **params)
    OVSSwitch.dpctl = OVSSwitch.vsctl = lambda self, *words, **_: recording.command(self.name, *words)
    OVSSwitch.attach = OVSSwitch.detach = _nothing
    OVSSwitch.OVSVersion = "3.0"
    Controller.checkListening = Controller.start = Controller.stop = _nothing
    for one in [
        kind for kind in vars(mininet.node).values() if isinstance(kind, type) and issubclass(kind, Controller)
    ]:
        for name in ("checkListening", "start", "stop"):
            setattr(one, name, _nothing)


def _change_links() -> None:
    def set_ip(self: Intf, ip: str, prefixLen: int | str | None = None) -> None:  # noqa: N803 - Mininet's name
        address, _, prefix = str(ip).partition("/")
        self.ip, self.prefixLen = address, prefix or prefixLen or 8

    def set_mac(self: Intf, mac: str) -> None:
        self.mac = self.own_mac = mac

    def shape(self: TCIntf, **params: Any) -> dict[str, Any]:
        self.params = {**self.params, **{name: value for name, value in params.items() if value is not None}}
        return dict(Intf.config(self, **params) or {})

    Intf.setIP, Intf.setMAC, Intf.ifconfig = set_ip, set_mac, lambda *_, **__: ""
    Intf.isUp = lambda *_, **__: True
    Intf.updateIP, Intf.updateMAC = lambda self: self.ip, lambda self: self.mac
    Intf.updateAddr = lambda self: (self.ip, self.mac)
    Intf.delete = lambda self: self.node.delIntf(self)
    TCIntf.config = shape
    Link.makeIntfPair = classmethod(_nothing)
    Link.stop = _nothing


def _change_net(recording: Recording) -> None:
    begin, add_host = Mininet.__init__, Mininet.addHost

    def begun(self: Mininet, *values: Any, **options: Any) -> None:
        recording.nets.append(self)
        begin(self, *values, **options | {"xterms": False, "cleanup": False, "waitConnected": False})

    def host(self: Mininet, name: str, cls: Any = None, **params: Any) -> Node:
        made = add_host(self, name, cls=cls, **params)
        made.given = dict(params)
        return made

    def nat(self: Mininet, name: str = "nat0", connect: Any = True, **_: Any) -> Node:
        recording.notes.append(f"{name} is an ordinary host: nothing leads out of the sandbox")
        made = self.addHost(name)
        self.addLink(made, self.switches[0] if connect is True else connect)
        return made

    def start(self: Mininet) -> NoReturn:
        if not self.built:
            self.build()
        recording.started = self
        raise EndOfBuilding

    Mininet.__init__, Mininet.addHost, Mininet.addNAT, Mininet.start = begun, host, nat, start
    Mininet.init = classmethod(_nothing)
    Mininet.configureControlNetwork = Mininet.startTerms = Mininet.stop = Mininet.staticArp = _nothing
    for name in ("ping", "pingAll", "pingPair", "pingFull", "pingAllFull", "iperf", "run", "monitor", "interact"):
        setattr(Mininet, name, _end)
    mininet.cli.CLI.__init__ = _end
