"""Late hosts, switches, interfaces and links: Mininet's own, built in batches.

Late classes request their changes to the kernel, which are then carried out in batches. The shell
of a node starts with the first command that needs one.

``late(cls)`` makes a late class of any class of Mininet's, or of a user's class that derives from
one. Topologies and scripts need no change. Mininet's own commands run if a late class does not know
enough, as for an interface that some command has created.
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

# Mininet's own initialization would change limits of the whole machine.
Mininet.inited = True

#: Mininet's parameters of a link that become queues.
SHAPING = ("bw", "delay", "jitter", "loss", "max_queue_size")

# Parameters of a link that are not supported.
_NOT_CARRIED_OUT = ("enable_ecn", "enable_red", "latency_ms", "speedup")

# The address that MiniEdit gives to a router that shall have none.
_NO_ADDRESS = "0.0.0.0"

_SYSCTL = re.compile(r"(?:sudo )?sysctl (?:-w )?(net\.[\w./-]+?) ?= ?(\S+)")
_ROUTE = re.compile(r"via (?P<gateway>[0-9.]+)(?: dev (?P<out>\S+))?|(?:dev )?(?P<only>\S+)")


def _current_requests() -> Requests:
    """Return the requests of the network that Mininet creates now.

    If late classes were given to a plain Mininet, there is none yet, and a batch begins here.
    """
    requests = Requests.current
    if requests is None or requests.closed:
        requests = Batch()
        Requests.current = requests
    return requests


class LateNode(LateShell, Node):  # type: ignore[misc]
    """A node whose namespaces and shell are created late.

    Attributes:
        given: Its name in the network; ``name`` is the printable form.
        requests: The requests of its network.
    """

    def __init__(self, name: str, *args: object, **params: object) -> None:
        self.given = name
        self.requests = _current_requests()
        super().__init__(printable(name), *args, **params)

    @property
    def device(self) -> str:
        """The name after which its interfaces, and its bridge, are called."""
        return self.requests.devices.get(self.given, self.given)

    @property
    def host(self) -> str | None:
        """The name of its namespaces, or None if it has none of its own."""
        return self.given if self.inNamespace else None

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802 - Mininet's name
        """Request the node's namespaces; the shell starts later."""
        if self.inNamespace:
            self.requests.add_host(self.given)

    def mountPrivateDirs(self) -> None:  # noqa: N802 - Mininet's name
        """Request the private directories of a host.

        A node next to the switches has no mount namespace of its own, and sees all files.
        """
        if not self.inNamespace:
            if self.privateDirs:
                warn(f"*** {self.name}: no private directories here; it sees those of all\n")
            return
        for directory in self.privateDirs:
            if isinstance(directory, tuple):
                mount_point, source = directory
            else:
                mount_point = directory
                source = ""
            self.requests.add_directory(self.given, mount_point, source % self.__dict__)

    @property
    def pid(self) -> int | None:
        """A process or thread in the node's namespaces.

        For a node next to the switches it is the shell, if it has started.
        """
        pid = self.requests.pid(self.given) if self.inNamespace else None
        if pid is not None or self._started is None:
            return pid
        return self._started.pid

    @pid.setter
    def pid(self, value: int | None) -> None:
        """Ignore the None that Mininet sets when it creates the node."""

    def cmd(self, *args: object, **options: object) -> object:
        """Run a command, as Mininet does.

        A command by which Mininet, or a script's LinuxRouter, changes a setting is requested if
        nothing has run in the node yet.
        """
        parts = args[0] if len(args) == 1 and isinstance(args[0], list) else args
        text = " ".join(map(str, parts)).strip()
        if text == "ifconfig lo up":
            # The loopback interface is set up with the host.
            return ""
        early = self.inNamespace and self._started is None and self.requests.takes_settings
        if early:
            setting = _SYSCTL.fullmatch(text)
            if setting:
                name, value = setting.groups()
                self.requests.set_sysctl(self.given, name, value)
                # The shell would print what sysctl prints.
                return f"{name} = {value}\r\n"
        answer = self.requests.answer(self, text)
        if answer is not None:
            return answer
        self.requests.flush()
        output = super().cmd(*args, **options)
        if "add-port" in text:
            self.requests.restore_queues(text.split())
        return output

    def addIntf(self, intf: Intf, **options: object) -> None:  # noqa: N802 - Mininet's name
        """Add an interface; one that was requested takes settings from now on."""
        intf.values = {}
        intf.given_index = self.requests.indices.get((self.host, intf.name))
        super().addIntf(intf, **options)

    def setARP(self, ip: str, mac: str) -> object:  # noqa: N802 - Mininet's name
        """Request a permanent neighbour at the default interface."""
        index = getattr(self.intf(), "index", None)
        if index is None:
            return super().setARP(ip, mac)
        self.requests.apply(self.host, add_neighbour(index, socket.inet_aton(ip), packed_mac(mac)))
        return ""

    def setDefaultRoute(  # noqa: N802 - Mininet's name
        self, intf: Intf | str | None = None
    ) -> object:
        """Request the default route.

        Args:
            intf: An interface or its name, or ``via ADDRESS [dev NAME]``. Without ``dev`` it is the
                interface whose subnet contains the address.
        """
        route = _ROUTE.fullmatch(str(intf).strip())
        gateway = None
        name = None
        if route:
            gateway = route["gateway"]
            name = route["out"] or route["only"]
        index = getattr(self._interface_towards(name, gateway), "index", None)
        if route is None or index is None:
            return super().setDefaultRoute(intf)
        self.requests.apply(self.host, add_route(None, index=index, via=gateway))
        return ""

    def _interface_towards(self, name: str | None, gateway: str | None) -> Intf | None:
        """Return the interface with this name, in the gateway's subnet, or by default."""
        if name:
            return self.intf(name)
        for intf in self.intfList():
            if gateway and intf.ip and _same_subnet(intf.ip, gateway, intf.prefixLen):
                return intf
        return self.intf()


def _same_subnet(a: str, b: str, prefix: int | str) -> bool:
    return _subnet(a, prefix) == _subnet(b, prefix)


def _subnet(ip: str, prefix: int | str) -> int:
    return int.from_bytes(socket.inet_aton(ip)) >> (32 - int(prefix))


class LateSwitch(LateNode, OVSSwitch):  # type: ignore[misc]
    """An Open vSwitch bridge that is created with all others, when Mininet starts its switches."""

    OVSVersion = "3.0"
    numbered = True
    _requested = False

    @classmethod
    def setup(cls) -> None:
        """Do nothing: no daemon runs yet whose version could be queried."""

    @classmethod
    def isOldOVS(cls) -> bool:  # noqa: N802 - Mininet's name
        """Return whether Open vSwitch is older than 1.10."""
        return False

    def defaultDpid(self, dpid: str | None = None) -> str:  # noqa: N802 - Mininet's name
        """Return the datapath id that Mininet derives from the name.

        If switches are ``numbered``, a name without digits gets the next number that is above those
        of all other names; otherwise Mininet refuses it.
        """
        self.given_dpid = dpid
        if self.numbered and not dpid and not re.search(r"\d", self.name):
            dpid = f"{next(self.requests.datapath_ids):x}"
        return str(super().defaultDpid(dpid))

    def vsctl(self, *args: object, **options: object) -> object:
        """Run ovs-vsctl.

        Mininet's ``start`` creates the bridge by this command. It is requested instead, with the
        controllers that the command names.
        """
        command = " ".join(map(str, args))
        if " -- add-br " not in command:
            return self.cmd("ovs-vsctl", *self.requests.database_words(self), *args, **options)
        targets = re.findall(r'target=\\"([^"\\]+)', command)
        # A passive target (ptcp:) is not a controller that the switch waits for.
        self._has_controller = any(not target.startswith("p") for target in targets)
        if self._requested and not self.requests.withdraw_bridge(self):
            # The bridge exists already, and Mininet starts it again.
            self.vsctl("--if-exists", "del-br", self.device)
        self._requested = True
        self.requests.add_bridge(self, targets)
        return ""

    @classmethod
    def batchStartup(  # noqa: N802 - Mininet's name
        cls, switches: Sequence[Node], run: object = None
    ) -> Sequence[Node]:
        """Create all bridges, and everything that was requested before them."""
        for requests in _requests_of(switches):
            requests.flush()
            requests.running = True
        return switches

    @classmethod
    def batchShutdown(  # noqa: N802 - Mininet's name
        cls, switches: Sequence[Node], run: object = None
    ) -> Sequence[Node]:
        """Take down the networks of these switches as a whole."""
        for switch in switches:
            switch.terminate()
        for requests in _requests_of(switches):
            requests.close()
        return switches

    def stop(self, deleteIntfs: bool = True) -> None:  # noqa: N803 - Mininet's name
        """Stop one switch while the network runs."""
        if not self.requests.closed:
            self.vsctl("--if-exists", "del-br", self.device)
            if deleteIntfs:
                self.deleteIntfs(checkName=False)

    def connected(self) -> bool:
        """Return whether the switch forwards packets or is connected to its controller.

        A switch forwards packets by itself if it learns or waits for no controller.
        """
        if isinstance(self, OVSBridge):
            return bool(super().connected())
        if self.failMode == "standalone" or not getattr(self, "_has_controller", False):
            return True
        return self.device in self.requests.connected()

    def attach(self, intf: Intf) -> None:
        """Add a port to the bridge while the network runs."""
        self.requests.add_port(self, self.intf(intf))

    def detach(self, intf: Intf) -> None:
        """Remove a port from the bridge."""
        self.vsctl("--if-exists", "del-port", self.device, intf)

    def dpctl(self, *args: str) -> str:
        """Run ovs-ofctl on this bridge, with an OpenFlow version that it supports."""
        version = (self.protocols or "OpenFlow10,OpenFlow13").replace(" ", ",")
        return str(self.cmd("ovs-ofctl", "-O", version, args[0], self.device, *args[1:]))


def _requests_of(switches: Sequence[Node]) -> list[Requests]:
    """Return the requests of the switches' networks, each once."""
    requests_by_id = {id(switch.requests): switch.requests for switch in switches}
    return list(requests_by_id.values())


class LateIntf(Intf):  # type: ignore[misc]
    """Methods of Mininet's interfaces for those of late nodes: settings are requested.

    The methods are installed in Mininet's own classes (see below), so that an interface keeps its
    class, which may be a user's.

    Attributes:
        values: Parameters that shape it (``SHAPING``).
        given_index: Index of the interface, if it was requested.
    """

    ip: str | None
    mac: str | None
    prefixLen: str | int  # noqa: N815 - Mininet's name
    values: JsonObject
    given_index: int | None = None

    @property
    def host(self) -> str | None:
        """The host whose namespace contains it; None for an interface next to the switches."""
        host: str | None = self.node.host
        return host

    @property
    def index(self) -> Any:
        """The index in the kernel, or None if it is configured by commands."""
        if self.given_index and self.node.requests.takes_settings:
            return self.given_index
        return None

    def config(self, **params: object) -> JsonObject:
        """Request Mininet's settings, and the queues of TCIntf.

        The parameters of queues (``SHAPING``) replace all earlier ones. If there are none, or a
        jitter alone, the queues stay as they are.
        """
        values = {key: params[key] for key in SHAPING if params.get(key) is not None}
        limited = "bw" in values or "max_queue_size" in values
        if limited or values.get("delay") or values.get("loss"):
            self.values = values
            self.node.requests.set_queue(self, values)
        for name in _NOT_CARRIED_OUT:
            if params.get(name) and name not in self.node.requests.reported:
                self.node.requests.reported.add(name)
                warn(f"*** {name} of links is not carried out here\n")
        # Interfaces are set up together with their cables, so Mininet must not do it.
        settings = {key: params.get(key) for key in ("mac", "ip", "ifconfig")}
        return dict(_USUAL["config"](self, up=None, **settings))

    def ifconfig(self, *args: object) -> object:
        """Request ``up`` or ``down``; anything else is a command."""
        if args not in (("up",), ("down",)):
            return _USUAL["ifconfig"](self, *args)
        self.node.requests.apply(self.host, set_up(self.index, args == ("up",)))
        return ""

    def setIP(  # noqa: N802 - Mininet's names
        self,
        ipstr: str,
        prefixLen: int | str | None = None,  # noqa: N803
    ) -> object:
        """Request an address, which replaces the previous one.

        Args:
            ipstr: The address, maybe with its prefix length.
            prefixLen: The prefix length, if the address has none.

        Raises:
            InputError: There is no prefix length.
        """
        ip, _, prefix = ipstr.partition("/")
        length = prefix or prefixLen
        if not length:
            raise InputError(f"{self.name}: no prefix length for the address {ipstr}")
        messages: list[Message] = []
        if ip != _NO_ADDRESS:
            try:
                messages.append(add_address(self.index, ip, int(length)))
            except OSError:
                # It is not an IPv4 address. Mininet's command says why.
                return _USUAL["setIP"](self, ipstr, prefixLen)
        has_other_address = (self.ip, str(self.prefixLen)) != (ip, str(length))
        if self.ip not in (None, _NO_ADDRESS) and has_other_address:
            messages.insert(0, remove_address(self.index, self.ip, int(self.prefixLen)))
        self.ip = ip
        self.prefixLen = length
        self.node.requests.addressed[self.node.given] = self.node
        self.node.requests.apply(self.host, *messages)
        return ""

    def setMAC(self, macstr: str) -> object:  # noqa: N802 - Mininet's name
        """Request another MAC address."""
        if macstr != self.mac:
            self.mac = macstr
            self.node.requests.apply(self.host, set_mac(self.index, macstr))
        return ""

    def delete(self) -> None:
        """Remove the interface, and the other end of its cable with it."""
        requests = self.node.requests
        if not requests.closed:
            # Earlier requests are about this interface. A later one may have the same name.
            requests.flush()
            # The interface may have been deleted with the other end.
            with suppress(NetlinkError):
                requests.apply(self.host, delete_link(self.index))
                requests.flush()
        self.node.delIntf(self)
        self.link = None


# Mininet's own methods of links and interfaces, by name.
_USUAL = {name: vars(Link)[name] for name in ("makeIntfPair", "intfName", "stop")}
_USUAL |= vars(Intf)


def _make_interfaces(
    cls: type,
    name1: str,
    name2: str,
    addr1: str | None = None,
    addr2: str | None = None,
    *nodes: Any,
    **options: Any,
) -> Any:
    """Request both interfaces of a link (``Link.makeIntfPair``).

    A node that a script has created by itself (``Node("root", inNamespace=False)``) is configured
    by commands, so the interfaces are created before Mininet runs these.
    """
    late_nodes = [node for node in nodes if hasattr(node, "requests")]
    if not late_nodes:
        make_usual = _USUAL["makeIntfPair"].__get__(None, cls)
        return make_usual(name1, name2, addr1, addr2, *nodes, **options)
    for node in nodes:
        if node not in late_nodes and node.inNamespace:
            raise InputError(
                f"{node.name} was made outside the network, which cannot join it; "
                "make it by addHost"
            )
    hosts = [node.host if node in late_nodes else None for node in nodes]
    requests = late_nodes[0].requests
    requests.add_interfaces((name1, hosts[0], addr1), (name2, hosts[1], addr2))
    for node, host, name in zip(nodes, hosts, (name1, name2), strict=True):
        if host is None and not isinstance(node, Switch):
            requests.senders_next_to_switches.append(name)
    if len(late_nodes) < len(nodes):
        requests.flush()
    return None


def _stop_link(self: Link) -> None:
    """Do nothing for a link of late nodes, whose network is taken down as a whole."""
    if not hasattr(self.intf1.node, "requests"):
        _USUAL["stop"](self)


def _either(usual: Any, of_late: Any) -> Any:
    """Return a method that calls ``of_late`` for interfaces of late nodes, and else ``usual``."""

    @functools.wraps(usual)
    def method(self: Any, *args: Any, **params: Any) -> Any:
        chosen = usual if self.index is None else of_late
        return chosen(self, *args, **params)

    return method


# Install the late methods in Mininet's classes themselves. A user's classes call the methods of
# their base class by name, so a class in between would be skipped.
for _name in ("config", "ifconfig", "setIP", "setMAC", "delete"):
    setattr(Intf, _name, _either(vars(Intf)[_name], vars(LateIntf)[_name]))
TCIntf.config = _either(vars(TCIntf)["config"], vars(LateIntf)["config"])
Intf.index = LateIntf.index
Intf.host = LateIntf.host
Intf.given_index = None
Link.makeIntfPair = classmethod(_make_interfaces)
Link.stop = _stop_link
Link.intfName = lambda _, node, n: interface_name(getattr(node, "device", node.name), n)

# An ordinary cable, where Open vSwitch would use two patch ports.
OVSLink.__init__ = Link.__init__
OVSLink.isPatchLink = False

# Classes that are replaced: by which class, and the reason in the words of a warning.
_REPLACED = {
    CPULimitedHost: (Host, "no CPU limits here"),
    UserSwitch: (OVSSwitch, "an Open vSwitch bridge instead"),
    IVSSwitch: (OVSSwitch, "an Open vSwitch bridge instead"),
}
_late_classes: dict[type, type] = {}


def late(cls: Any) -> Any:
    """Return the late class for a class, or for a partial of a class.

    Classes that are not nodes, such as controllers, and functions are returned unchanged.

    >>> from mininet.node import OVSBridge
    >>> issubclass(late(OVSBridge), OVSBridge), late(late(OVSBridge)) is late(OVSBridge)
    (True, True)
    """
    if isinstance(cls, functools.partial):
        return functools.partial(late(cls.func), *cls.args, **cls.keywords)
    if not isinstance(cls, type) or issubclass(cls, LateNode):
        return cls
    if cls not in _late_classes:
        _late_classes[cls] = _make_late(cls)
    return _late_classes[cls]


def _make_late(cls: type) -> type:
    """Derive a late class from a class, or from the class that replaces it."""
    base = cls
    for replaced, (replacement, reason) in _REPLACED.items():
        if issubclass(cls, replaced):
            warn(f"*** {cls.__name__}: {reason}\n")
            base = replacement
            break
    if issubclass(base, OVSSwitch):
        mixin = LateSwitch
    elif issubclass(base, Node) and not issubclass(base, Switch):
        mixin = LateNode
    else:
        # Other switches, and classes that are not nodes.
        return cls
    return type(cls.__name__, (mixin, base), {"__module__": cls.__module__})
