"""Mininet's hosts, switches and interfaces for a network that is already built: objects only, no command at their making.

Mininet's own classes run a shell a node and several commands an interface; here a shell starts when it is first used.
"""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import shutil
import struct
import termios
from collections.abc import Callable
from typing import Any

from mininet.link import Intf, Link
from mininet.net import Mininet
from mininet.node import Node, OVSSwitch

from testbed.emulation.sandbox.rights import confined

SetLink = Callable[[str, str, bool], None]


class BuiltInterface(Intf):  # type: ignore[misc]
    """An interface that exists and is configured; its addresses are known, never asked for."""

    def __init__(self, name: str, node: Any, port: int, *, mac: str | None = None, ip: str | None = None) -> None:
        super().__init__(name, node=node, port=port, mac=mac, moveIntfFn=lambda name, node: None)
        self.ip, self.prefixLen = ip, None if ip is None else 8

    def config(self, **_params: Any) -> dict[str, Any]:
        """Nothing is left to do."""
        return {}

    def updateIP(self) -> str | None:  # noqa: N802 - Mininet's name
        """The address it was given."""
        return str(self.ip) if self.ip else None


class BuiltLink(Link):  # type: ignore[misc]
    """A cable between two interfaces that exist."""

    def __init__(self, intf1: BuiltInterface, intf2: BuiltInterface) -> None:
        self.intf1, self.intf2 = intf1, intf2
        intf1.link = intf2.link = self


class _LateShell:
    """Mixed into Mininet's nodes: the shell starts at the first command."""

    isSetup = True  # noqa: N815 - Mininet's name: nothing is to be checked
    name: str
    _namespace_pid: int | None = None
    _started: Any = None
    _ended = False

    def startShell(self, mnopts: str | None = None) -> None:  # noqa: N802
        """Not yet."""

    @property
    def shell(self) -> Any:
        """The node's shell process, started now if it was not."""
        if self._started is None and not self._ended and hasattr(self, "_ready"):
            self._open_shell()
        return self._started

    @shell.setter
    def shell(self, value: Any) -> None:
        self._started = value

    @property
    def pid(self) -> int:
        """A process in the node's namespace."""
        return self._namespace_pid or os.getpid()

    @pid.setter
    def pid(self, value: int | None) -> None:
        """Mininet sets None while it makes the node."""

    def popen(self, *args: Any, **options: Any) -> Any:
        """As Mininet's, without rights over the machine."""
        options.setdefault("mncmd", ["mnexec", "-da", str(self.pid), *confined([])])
        return super().popen(*args, **options)  # type: ignore[misc]

    def terminate(self) -> None:
        """End the shell, if there is one; the namespace is the network's."""
        if self._started is not None:
            self._started.kill()
            self._started.wait()
            self.stdin.close()
            os.close(self.slave)
        self._started, self._ended = None, True

    def _open_shell(self) -> None:
        options = ["-cd"] if self._namespace_pid is None else ["-cda", str(self._namespace_pid)]
        own = [] if self._namespace_pid is None else ["nsenter", f"--uts=/proc/{self._namespace_pid}/ns/uts"]
        words = [
            *own,
            "mnexec",
            *options,
            *confined(["env", "PS1=\x7f", "bash", "--norc", "--noediting", "-is", "mininet:" + self.name]),
        ]
        self.master, self.slave = pty.openpty()
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self._started = self._popen(  # type: ignore[attr-defined]
            words, stdin=self.slave, stdout=self.slave, stderr=self.slave, close_fds=False
        )
        self.stdin = self.stdout = os.fdopen(self.master, "r")
        self.pollOut = select.poll()
        self.pollOut.register(self.stdout)
        Node.outToNode[self.stdout.fileno()] = Node.inToNode[self.stdin.fileno()] = self
        self.execed, self.lastCmd, self.lastPid, self.readbuf = False, None, None, ""
        while not self.read(1024).endswith("\x7f"):  # type: ignore[attr-defined]
            self.pollOut.poll()
        self.waiting = False
        self.cmd("unset HISTFILE; stty -echo; set +m")  # type: ignore[attr-defined]


class BuiltHost(_LateShell, Node):  # type: ignore[misc]
    """A host whose namespace is held by the process ``namespace_pid``."""

    def __init__(self, name: str, *, namespace_pid: int) -> None:
        super().__init__(name, inNamespace=True)
        self._namespace_pid = namespace_pid
        self._ready = True


class BuiltSwitch(_LateShell, OVSSwitch):  # type: ignore[misc]
    """A bridge that exists."""

    OVSVersion = "3.0"

    def __init__(self, name: str, *, dpid: int, datapath: str) -> None:
        # inNamespace keeps Mininet from configuring the loopback interface by a command; the bridge itself is outside.
        super().__init__(
            name, dpid=f"{dpid:016x}", failMode="secure", datapath=datapath, protocols="OpenFlow13", inNamespace=True
        )
        self.inNamespace = False
        self._ready = True
        self.controlIntf = BuiltInterface("lo", self, 0, ip="127.0.0.1")

    def dpctl(self, *args: Any) -> Any:
        """ovs-ofctl on this bridge, in the OpenFlow version that it speaks."""
        return self.cmd("ovs-ofctl", "-O", "OpenFlow13", args[0], self, *args[1:])


class BuiltMininet(Mininet):  # type: ignore[misc]
    """A Mininet for the prompt, over nodes that exist. ``set_link`` carries out its ``link a b up|down``."""

    def __init__(self, set_link: SetLink) -> None:
        Mininet.inited = True  # Mininet's own start-up would change limits of the whole machine
        super().__init__(topo=None, controller=None, build=False)
        self._set_link = set_link
        self.built = True

    def take(self, node: Any) -> None:
        """Add a host or switch that exists."""
        (self.switches if isinstance(node, BuiltSwitch) else self.hosts).append(node)
        self.nameToNode[node.name] = node

    def iperf(
        self,
        hosts: Any = None,
        l4Type: str = "TCP",  # noqa: N803 - Mininet's name
        udpBw: str = "10M",  # noqa: N803
        fmt: Any = None,
        seconds: int = 5,
        port: int = 5001,
    ) -> list[str]:
        """Goodput between two hosts by iperf3; Mininet's own waits for ever on what iperf 2.1 prints.

        Returns the rates at the server and the client (first the asked one for UDP), and prints them.
        """
        from mininet.log import error, output

        client, server = hosts or (self.hosts[0], self.hosts[-1])
        if shutil.which("iperf3") is None:
            error("iperf3 is not installed; sudo apt-get install iperf3\n")
            return []
        output(f"*** Iperf: testing {l4Type} bandwidth between {client} and {server}\n")
        listening = server.popen(["iperf3", "-s", "-1", "-p", str(port), "--forceflush"])
        listening.stdout.readline()
        words = ["iperf3", "-c", server.IP(), "-p", str(port), "-t", str(seconds), "-J"]
        words += ["-u", "-b", udpBw] if l4Type == "UDP" else []
        try:
            said, _, _ = client.pexec(words)
        finally:
            listening.kill()
            listening.communicate()
        rates = _goodput(said)
        result = ([udpBw] if l4Type == "UDP" else []) + rates
        if not rates:
            error(f"iperf3 reported no rate: {json.loads(said or '{}').get('error', 'no connection')}\n")
        output(f"*** Results: {result}\n")
        return result

    def configLinkStatus(self, src: str, dst: str, status: str) -> None:  # noqa: N802
        """Every cable between the two nodes, up or down."""
        from mininet.log import error

        for name in (src, dst):
            if name not in self.nameToNode:
                error(f"{name} is no node of this network\n")
                return
        a, b = self.nameToNode[src], self.nameToNode[dst]
        if not a.connectionsTo(b):
            error(f"no cable between {src} and {dst}\n")
            return
        self._set_link(a.name, b.name, status == "up")


def _goodput(report: str) -> list[str]:
    """Receiver's and sender's rate from iperf3's JSON, as text; empty where it has none."""
    try:
        end = json.loads(report)["end"]
        sent = end.get("sum_sent") or end["sum"]
        received = end.get("sum_received") or end["sum"]
    except (ValueError, KeyError):
        return []
    return [f"{part['bits_per_second'] / 1e6:.2f} Mbits/sec" for part in (received, sent)]
