"""Mininet's own hosts, switches, interfaces and links, made late: what they do to the kernel is requested and made in
batches, and a shell starts with the first command that needs one.

``late(cls)`` makes any class of Mininet's, or of a user's that is derived from one, late; topologies and scripts stay
as they are. Where a node cannot know better (an interface that some command has made) Mininet's own commands run.
"""

import functools
import re
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from mininet.link import Intf, Link, OVSLink, TCIntf
from mininet.log import warn
from mininet.net import Mininet
from mininet.node import (
    CPULimitedHost,
    Host,
    IVSSwitch,
    Node,
    OVSBridge,
    OVSSwitch,
    Switch,
    UserSwitch,
)

from testbed.emulation.network.kernel.routes import add_route
from testbed.emulation.network.kernel.rtnetlink import (
    Message,
    NetlinkError,
    add_address,
    add_neighbour,
    set_up,
)
from testbed.emulation.network.mininet_network.batch import Batch
from testbed.emulation.network.mininet_network.messages import delete_link, remove_address, set_mac
from testbed.emulation.network.mininet_network.requests import Requests
from testbed.emulation.network.mininet_network.shell import LateShell
from testbed.errors import InputError
from testbed.model.naming.device_names import interface_name
from testbed.model.naming.printable import printable
from topologies.text.addresses import packed_mac
from topologies.text.json_types import JsonObject

Mininet.inited = True  # Mininet's own start-up would change limits of the whole machine
SHAPING = ("bw", "delay", "jitter", "loss", "max_queue_size")
"""Mininet's parameters of a link that become queues."""
_NOT_CARRIED_OUT = "enable_ecn", "enable_red", "latency_ms", "speedup"
_NONE = "0.0.0.0"
"""The address that MiniEdit gives a router: none."""
_SYSCTL = re.compile(r"(?:sudo )?sysctl (?:-w )?(net\.[\w./-]+?) ?= ?(\S+)")
_ROUTE = re.compile(r"via (?P<gateway>[0-9.]+)(?: dev (?P<out>\S+))?|(?:dev )?(?P<only>\S+)")


def _requests_of_now() -> Requests:
    """Those that Mininet's nodes are made for; begun here where a plain Mininet was given late classes."""
    found = Requests.current
    if found is None or found.closed:
        found = Requests.current = Batch()
    return found


class LateNode(LateShell, Node):  # type: ignore[misc]
    """A node whose namespaces and shell come late. ``given``: its name in the network, of which ``name`` is the
    printable form; ``device``: what its interfaces, and its bridge, are called after."""

    def __init__(self, name: str, *args: object, **params: object) -> None:
        self.given, self.requests = name, _requests_of_now()
        super().__init__(printable(name), *args, **params)

    @property
    def device(self) -> str:
        """As the network's names have it."""
        return self.requests.devices.get(self.given, self.given)

    @property
    def host(self) -> str | None:
        """The name of its namespaces; None where it has none of its own."""
        return self.given if self.inNamespace else None

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Not yet: the node is requested."""
        if self.inNamespace:
            self.requests.add_host(self.given)

    def mountPrivateDirs(self) -> None:  # noqa: N802 - Mininet's name
        """With the host, in mounts of its own; a node next to the switches shares all files."""
        for one in self.privateDirs if self.inNamespace else ():
            seen, source = one if isinstance(one, tuple) else (one, "")
            self.requests.add_directory(self.given, seen, source % self.__dict__)
        if self.privateDirs and not self.inNamespace:
            warn(f"*** {self.name}: no private directories here; it sees those of all\n")

    @property
    def pid(self) -> int | None:
        """A process, or thread, that is in the node's namespaces; of a node next to the switches its shell's."""
        found = self.requests.pid(self.given) if self.inNamespace else None
        return found if found is not None or self._started is None else self._started.pid

    @pid.setter
    def pid(self, value: int | None) -> None:
        """Mininet sets None while it makes the node."""

    def cmd(self, *args: object, **options: object) -> object:
        """As Mininet's; what it, or LinuxRouter, sets by commands is requested and not run."""
        words = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        text = " ".join(map(str, words)).strip()
        if text == "ifconfig lo up":
            return ""
        early = self.inNamespace and self._started is None and self.requests.takes_settings
        if early and (known := _SYSCTL.fullmatch(text)):
            self.requests.set_sysctl(self.given, known[1], known[2])
            return f"{known[1]} = {known[2]}\r\n"
        answer = self.requests.answer(self, text)
        if answer is None:
            self.requests.flush()
            answer = super().cmd(*args, **options)
            if "add-port" in text:
                self.requests.restore_queues(text.split())
        return answer

    def addIntf(self, intf: Intf, **options: object) -> None:  # noqa: N802 - Mininet's name
        """One that was requested takes settings from now on."""
        intf.values, intf.given_index = {}, self.requests.indices.get((self.host, intf.name))
        super().addIntf(intf, **options)

    def setARP(self, ip: str, mac: str) -> object:  # noqa: N802 - Mininet's name
        """A permanent neighbour."""
        index = getattr(self.intf(), "index", None)
        if index is None:
            return super().setARP(ip, mac)
        self.requests.apply(self.host, add_neighbour(index, socket.inet_aton(ip), packed_mac(mac)))
        return ""

    def setDefaultRoute(self, intf: Intf | str | None = None) -> object:  # noqa: N802 - Mininet's name
        """Through an interface, or ``via`` an address; without ``dev`` through the interface whose subnet has it."""
        found = _ROUTE.fullmatch(str(intf).strip())
        gateway, name = (found["gateway"], found["out"] or found["only"]) if found else (None, None)
        near = [
            one
            for one in self.intfList()
            if gateway and one.ip and _same_subnet(one.ip, gateway, one.prefixLen)
        ]
        index = getattr(self.intf(name) if name else next(iter(near), self.intf()), "index", None)
        if found is None or index is None:
            return super().setDefaultRoute(intf)
        self.requests.apply(self.host, add_route(None, index=index, via=gateway))
        return ""


def _same_subnet(a: str, b: str, prefix: int | str) -> bool:
    one, other = (int.from_bytes(socket.inet_aton(ip)) >> (32 - int(prefix)) for ip in (a, b))
    return one == other


class LateSwitch(LateNode, OVSSwitch):  # type: ignore[misc]
    """An Open vSwitch bridge that is made with all others, when Mininet starts its switches."""

    OVSVersion = "3.0"
    numbered = True
    _requested = False

    @classmethod
    def setup(cls) -> None:
        """Nothing runs yet that could be asked for its version."""

    @classmethod
    def isOldOVS(cls) -> bool:  # noqa: N802 - Mininet's name
        """Older than 1.10."""
        return False

    def defaultDpid(self, dpid: str | None = None) -> str:  # noqa: N802 - Mininet's name
        """Return the datapath id that Mininet derives from the name.

        Where switches are ``numbered``, a name without digits gets the next number that is above
        those of all other names; otherwise Mininet refuses it.
        """
        self.given_dpid = dpid
        if self.numbered and not dpid and not re.search(r"\d", self.name):
            dpid = f"{next(self.requests.datapath_ids):x}"
        return str(super().defaultDpid(dpid))

    def vsctl(self, *args: object, **options: object) -> object:
        """Mininet's ``start`` makes its bridge by this command, of which the controllers are taken."""
        words = " ".join(map(str, args))
        if " -- add-br " not in words:
            return self.cmd("ovs-vsctl", *self.requests.database_words(self), *args, **options)
        targets = re.findall(r'target=\\"([^"\\]+)', words)
        self._has_controller = any(not target.startswith("p") for target in targets)
        if self._requested and not self.requests.withdraw_bridge(self):
            self.vsctl("--if-exists", "del-br", self.device)
        self._requested = True
        self.requests.add_bridge(self, targets)
        return ""

    @classmethod
    def batchStartup(cls, switches: Sequence[Node], run: object = None) -> Sequence[Node]:  # noqa: N802
        """All bridges, with whatever was requested before them."""
        for requests in {id(one.requests): one.requests for one in switches}.values():
            requests.flush()
            requests.running = True
        return switches

    @classmethod
    def batchShutdown(cls, switches: Sequence[Node], run: object = None) -> Sequence[Node]:  # noqa: N802
        """The network goes as a whole."""
        for switch in switches:
            switch.terminate()
        for requests in {id(one.requests): one.requests for one in switches}.values():
            requests.close()
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Of one switch, while the network runs."""
        if not self.requests.closed:
            self.vsctl("--if-exists", "del-br", self.device)
            if deleteIntfs:
                self.deleteIntfs(checkName=False)

    def connected(self) -> bool:
        """Whether it forwards by itself, has no controller to wait for, or is connected to one."""
        if isinstance(self, OVSBridge):
            return bool(super().connected())
        alone = self.failMode == "standalone" or not getattr(self, "_has_controller", False)
        return alone or self.device in self.requests.connected()

    def attach(self, intf: Intf) -> None:
        """Another port of the bridge, while the network runs."""
        self.requests.add_port(self, self.intf(intf))

    def detach(self, intf: Intf) -> None:
        """The bridge without that port."""
        self.vsctl("--if-exists", "del-port", self.device, intf)

    def dpctl(self, *args: str) -> str:
        """ovs-ofctl on this bridge, in an OpenFlow version that it speaks."""
        version = (self.protocols or "OpenFlow10,OpenFlow13").replace(" ", ",")
        return str(self.cmd("ovs-ofctl", "-O", version, args[0], self.device, *args[1:]))


class LateIntf(Intf):  # type: ignore[misc]
    """What Mininet's interfaces do where they are a late node's: settings are requested. Their own class, a user's one
    too, is as it was. ``values``: what shapes it (``SHAPING``); ``given_index``: as the kernel numbers it."""

    ip: str | None
    mac: str | None
    prefixLen: str | int  # noqa: N815 - Mininet's name
    values: JsonObject
    given_index: int | None = None

    @property
    def host(self) -> str | None:
        """In whose namespace it lies, None next to the switches."""
        found: str | None = self.node.host
        return found

    @property
    def index(self) -> Any:
        """As the kernel numbers it; None where commands set it."""
        return self.given_index if self.given_index and self.node.requests.takes_settings else None

    def config(self, **params: object) -> JsonObject:
        """Mininet's, and the queues of TCIntf: bw, delay, jitter, loss, max_queue_size; what is given replaces all that
        was, and nothing, or a jitter alone, leaves it."""
        given = {key: params[key] for key in SHAPING if params.get(key) is not None}
        if given.keys() & {"bw", "max_queue_size"} or given.get("delay") or given.get("loss"):
            self.values = given
            self.node.requests.set_queue(self, given)
        for name in _NOT_CARRIED_OUT:
            if params.get(name) and name not in self.node.requests.reported:
                self.node.requests.reported.add(name)
                warn(f"*** {name} of links is not carried out here\n")
        # Interfaces are taken up with their cables.
        return dict(
            _USUAL["config"](
                self, up=None, **{key: params.get(key) for key in ("mac", "ip", "ifconfig")}
            )
        )

    def ifconfig(self, *args: object) -> object:
        """``up`` and ``down`` are requested, anything else is a command."""
        if args not in (("up",), ("down",)):
            return _USUAL["ifconfig"](self, *args)
        self.node.requests.apply(self.host, set_up(self.index, args == ("up",)))
        return ""

    def setIP(self, ipstr: str, prefixLen: int | str | None = None) -> object:  # noqa: N802, N803 - Mininet's names
        """In place of the address before."""
        ip, _, prefix = ipstr.partition("/")
        length = prefix or prefixLen
        if not length:
            raise InputError(f"{self.name}: no prefix length for the address {ipstr}")
        try:
            messages: list[Message] = (
                [] if ip == _NONE else [add_address(self.index, ip, int(length))]
            )
        except OSError:
            return _USUAL["setIP"](self, ipstr, prefixLen)
        if self.ip not in (None, _NONE) and (self.ip, str(self.prefixLen)) != (ip, str(length)):
            messages.insert(0, remove_address(self.index, self.ip, int(self.prefixLen)))
        self.ip, self.prefixLen = ip, length
        self.node.requests.addressed[self.node.given] = self.node
        self.node.requests.apply(self.host, *messages)
        return ""

    def setMAC(self, macstr: str) -> object:  # noqa: N802 - Mininet's name
        """Another MAC address."""
        if macstr != self.mac:
            self.mac = macstr
            self.node.requests.apply(self.host, set_mac(self.index, macstr))
        return ""

    def delete(self) -> None:
        """Remove the interface, and the other end of its cable with it."""
        requests = self.node.requests
        if not requests.closed:
            # What was requested of the interface comes first, and a later one may have its name.
            requests.flush()
            with suppress(NetlinkError):  # It has gone with the other end.
                requests.apply(self.host, delete_link(self.index))
                requests.flush()
        self.node.delIntf(self)
        self.link = None


_OF_LINKS = "makeIntfPair", "intfName", "stop"
_USUAL = {**{name: vars(Link)[name] for name in _OF_LINKS}, **vars(Intf)}


def _make_interfaces(
    cls: type,
    name1: str,
    name2: str,
    addr1: str | None = None,
    addr2: str | None = None,
    *nodes: Any,
    **options: Any,
) -> Any:
    """Two interfaces by one message; the end next to the switches is up at once.

    A node that a script has made by itself (``Node("root", inNamespace=False)``) has commands: they find it made.
    """
    known = [node for node in nodes if hasattr(node, "requests")]
    if not known:
        return _USUAL["makeIntfPair"].__get__(None, cls)(
            name1, name2, addr1, addr2, *nodes, **options
        )
    for node in nodes:
        if node not in known and node.inNamespace:
            raise InputError(
                f"{node.name} was made outside the network, which cannot join it; make it by addHost"
            )
    hosts = [node.host if node in known else None for node in nodes]
    requests = known[0].requests
    requests.add_interfaces((name1, hosts[0], addr1), (name2, hosts[1], addr2))
    for node, host, name in zip(nodes, hosts, (name1, name2), strict=True):
        if host is None and not isinstance(node, Switch):
            requests.senders_next_to_switches.append(name)
    if len(known) < len(nodes):
        requests.flush()
    return None


def _stop_link(self: Link) -> None:
    """A network of late nodes goes as a whole."""
    if not hasattr(self.intf1.node, "requests"):
        _USUAL["stop"](self)


def _either(usual: Any, of_late: Any) -> Any:
    @functools.wraps(usual)
    def method(self: Any, *args: Any, **params: Any) -> Any:
        return (usual if self.index is None else of_late)(self, *args, **params)

    return method


# A user's classes call Mininet's by name, so that these, and no class before them, have to know late nodes.
for _name in ("config", "ifconfig", "setIP", "setMAC", "delete"):
    for _kind in (Intf, TCIntf) if _name == "config" else (Intf,):
        setattr(_kind, _name, _either(vars(_kind)[_name], vars(LateIntf)[_name]))
Intf.index, Intf.host, Intf.given_index = LateIntf.index, LateIntf.host, None
Link.makeIntfPair, Link.stop = classmethod(_make_interfaces), _stop_link
OVSLink.__init__, OVSLink.isPatchLink = (
    Link.__init__,
    False,
)  # a cable, where Open vSwitch would have two patch ports
Link.intfName = lambda _, node, n: interface_name(getattr(node, "device", node.name), n)


_INSTEAD = {
    CPULimitedHost: (Host, "no CPU limits here"),
    UserSwitch: (OVSSwitch, "an Open vSwitch bridge instead"),
}
_INSTEAD |= {IVSSwitch: _INSTEAD[UserSwitch]}
_made: dict[type, type] = {}


def late(cls: Any) -> Any:
    """The class, or partial of one, made late; any other function is left as it is (a controller's, for one).

    >>> from mininet.node import OVSBridge
    >>> issubclass(late(OVSBridge), OVSBridge), late(late(OVSBridge)) is late(OVSBridge)
    (True, True)
    """
    if isinstance(cls, functools.partial):
        return functools.partial(late(cls.func), *cls.args, **cls.keywords)
    if not isinstance(cls, type) or issubclass(cls, LateNode):
        return cls
    if cls not in _made:
        base, reason = next(
            ((new, why) for old, (new, why) in _INSTEAD.items() if issubclass(cls, old)), (cls, "")
        )
        if reason:
            warn(f"*** {cls.__name__}: {reason}\n")
        kinds = ((OVSSwitch, LateSwitch), (Switch, None), (Node, LateNode))
        mixin = next((mixin for kind, mixin in kinds if issubclass(base, kind)), None)
        _made[cls] = (
            cls
            if mixin is None
            else type(cls.__name__, (mixin, base), {"__module__": cls.__module__})
        )
    return _made[cls]
