"""The sandbox's private Open vSwitch: one daemon, or for a large network several, each with a share of the bridges.

A user-space daemon searches and polls all its ports for each port that is added and each packet that comes: time grows
with the square of the ports. With shares of a fixed size it grows with their number.
"""

import fcntl
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

from testbed.emulation.network.open_vswitch.switch_daemon import (
    Datapath,
    SwitchDaemon,
    release_sockets,
    run_tool,
)
from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import CapabilityError, InvalidRunError
from topologies.text.json_types import JsonObject

_FORGET_S, _PROBE_S = 10.0, 5.0
# Asks a tun device for its features, and changes nothing (linux/if_tun.h).
_TUNGETFEATURES = 0x800454CF
_BRIDGES_LIMIT_S, _OPERATION_LIMIT_S = 60.0, 0.01
MOST_PORTS = 1100
"""Of one user-space daemon, where it can have all: Swiss-T1, the optical cloud and 115 mobile nodes (972 ports) have
one."""
SHARE_PORTS = 500
"""Of each of several. With 1000 switches (9,100 ports), processor seconds of the daemons and megabytes of all: 6.5 and
815 with shares of 250 ports, 6.4 and 621 with 500, 8.5 and 527 with 1000, 9.7 and 475 with 2000, 28 with one daemon."""


class PrivateSwitches:
    """The daemons, private to this sandbox. ``datapath``: kernel module or user space; ``shares``: names of the bridges
    of each."""

    def __init__(self, datapath: Datapath, shares: Sequence[Sequence[str]] = ((),)) -> None:
        self.datapath: Datapath = datapath
        directory, alone = require_sandbox(), len(shares) == 1
        self._shares = [tuple(share) for share in shares]
        self._daemons = [
            SwitchDaemon(datapath, directory, number=k, alone=alone) for k in range(len(shares))
        ]

    @property
    def releases_ports_first(self) -> bool:
        """Whether ``stop`` comes before the interfaces go: each that goes is told to each socket that still listens to
        one of them, but a daemon that ends first takes its tap interfaces down one by one. Several daemons have
        none."""
        return len(self._daemons) > 1

    def start(self) -> None:
        """Start all; CapabilityError where a program is missing or does not come up in time.

        Several sleep until ``set_up``: every interface that is made meanwhile would be news to each of them.
        """
        for daemon in self._daemons:
            daemon.start()
            if len(self._daemons) > 1:
                daemon.pause()

    def set_up(
        self,
        operations: Callable[[Sequence[str], str], Sequence[JsonObject]],
        bridges: Sequence[str] | None = None,
    ) -> None:
        """Have each daemon carry out ``operations(its bridges, Open vSwitch's datapath type)``; return when all have.
        ``bridges``: of these alone (None: all); one that no daemon has goes to the last.

        CapabilityError where an operation is refused or a port cannot be set up; InvalidRunError where the daemons do
        not finish in time (60 s and 10 ms a row of the database).
        """
        known, required_bridges = (
            {name for share in self._shares for name in share},
            set(bridges or ()),
        )
        self._shares[-1] += tuple(name for name in bridges or () if name not in known)
        count, made = 0, set[str]()
        for daemon, share in zip(self._daemons, self._shares, strict=True):
            chosen = (
                share
                if bridges is None
                else tuple(name for name in share if name in required_bridges)
            )
            required = operations(chosen, daemon.datapath_type) if chosen or bridges is None else ()
            count += len(required)
            made |= {one["row"]["name"] for one in required if one.get("table") == "Interface"}
            daemon.transact(required)
            daemon.pause(on=False)
        self._await(_BRIDGES_LIMIT_S + _OPERATION_LIMIT_S * count)
        wrong = [text for daemon in self._daemons for name, text in daemon.errors() if name in made]
        if wrong:
            raise CapabilityError(
                f"Open vSwitch could not set up {len(wrong)} ports, the first {wrong[0]}"
            )

    def database_of(self, bridge: str) -> Path:
        """The socket of the database that has the bridge; the last one for a bridge that none has."""
        shared = zip(self._daemons, self._shares, strict=True)
        return next(
            (daemon for daemon, share in shared if bridge in share), self._daemons[-1]
        ).database

    def connected(self) -> set[str]:
        """Bridges (their devices) that are connected to a controller now."""
        return {bridge for daemon in self._daemons for bridge in daemon.connected()}

    def ended(self) -> str | None:
        """Return which program of Open vSwitch has ended by itself, and how, or None."""
        reports = [daemon.ended() for daemon in self._daemons]
        return next((report for report in reports if report is not None), None)

    def _await(self, limit_s: float) -> None:
        limit, pause = time.monotonic() + limit_s, 0.002
        left = list(zip(self._daemons, self._shares, strict=True))
        while left := [(daemon, share) for daemon, share in left if not daemon.is_applied()]:
            if time.monotonic() > limit:
                missing, total = sum(len(share) for _, share in left), sum(map(len, self._shares))
                raise InvalidRunError(
                    f"ovs-vswitchd set up {total - missing} of {total} switches within {limit_s:.0f} s: "
                    "this machine is too slow or too busy for the network; retry when it is idle, or use several "
                    "machines (--machines)"
                )
            time.sleep(pause)
            pause = min(0.02, pause * 1.3)

    def pause(self) -> None:
        """Let the daemons do nothing more, so that they do not chase the interfaces that are now removed."""
        for daemon in self._daemons:
            daemon.pause()

    def stop(self) -> None:
        """End all at once; what they made is the network's to remove."""
        if self.datapath == "user":
            release_sockets(
                [pid for daemon in self._daemons if (pid := daemon.switch_pid) is not None]
            )
        for daemon in self._daemons:
            daemon.stop()
        if self.datapath == "kernel":
            subprocess.run(
                ["ovs-dpctl", "del-dp", "ovs-system"], capture_output=True, timeout=10, check=False
            )


def flush_flow_cache() -> None:
    """Have the switches look every packet from now on up in their tables: they forget what they remember of earlier
    ones.

    A barrier is answered when the tables are changed; the daemon revises its memory some tens of milliseconds later,
    and goes by it until then. CapabilityError where a daemon does not answer.
    """
    order_daemons("revalidator/purge", limit_s=_FORGET_S, what="forget its flows")


def order_daemons(order: str, *, limit_s: float, what: str) -> None:
    """Give all daemons of this sandbox one of ovs-appctl's orders, and return when all have carried it out.

    CapabilityError ("ovs-vswitchd did not" ``what``) where one does not within ``limit_s`` seconds, or there is none.
    """
    found = sorted(_run_directory().glob("ovs-vswitchd*.ctl"))
    if not found:
        raise CapabilityError(f"ovs-vswitchd did not {what}: it is not running")
    with ExitStack() as stack:
        requested = [
            stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) for _ in found
        ]
        try:
            for sock, path in zip(requested, found, strict=True):
                sock.settimeout(limit_s)
                sock.connect(str(path))
                sock.sendall(json.dumps({"id": 1, "method": order, "params": []}).encode())
            refused = [
                error
                for sock in requested
                if (error := json.loads(sock.recv(1 << 16))["error"]) is not None
            ]
        except TimeoutError:
            raise CapabilityError(f"ovs-vswitchd did not {what} within {limit_s:g} s") from None
        except (OSError, ValueError) as error:
            raise CapabilityError(f"ovs-vswitchd did not {what}: {error}") from None
    if refused:
        raise CapabilityError(f"ovs-vswitchd did not {what}: {str(refused[0]).strip()}")


def connect_bridge(bridge: str) -> socket.socket:
    """A connection to a bridge's management socket. CapabilityError where there is none."""
    path = _run_directory() / f"{bridge}.mgmt"
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(path))
    except OSError as error:
        sock.close()
        raise CapabilityError(
            f"bridge {bridge} cannot be reached at {path} ({error.strerror})"
        ) from None
    return sock


def _run_directory() -> Path:
    return Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"))


def probe_kernel_datapath() -> str | None:
    """Make a datapath in the kernel and remove it again; None where that works, else the reason. Inside a sandbox
    only."""
    require_sandbox()
    try:
        for order in ("add-dp", "del-dp"):
            run_tool("ovs-dpctl", order, "probe", limit_s=_PROBE_S)
    except CapabilityError as refused:
        return str(refused)
    return None


def choose_datapath() -> Datapath:
    """The kernel's datapath where it works, else user space, which needs /dev/net/tun. Inside a sandbox only.

    ``TESTBED_DATAPATH`` (kernel or user) overrides. Raises CapabilityError where neither works.
    """
    requested = os.environ.get("TESTBED_DATAPATH")
    if requested not in (None, "", "kernel", "user"):
        raise CapabilityError(
            f"TESTBED_DATAPATH is {requested!r}; set it to kernel or user, or unset it"
        )
    if requested == "user":
        return "user"
    refused = probe_kernel_datapath()
    if refused is None:
        return "kernel"
    if requested == "kernel":
        raise CapabilityError(
            f"no Open vSwitch datapath in the kernel ({refused}); sudo modprobe openvswitch"
        )
    lack = tun_problem()
    if lack is not None:
        raise CapabilityError(lack)
    return "user"


def tun_problem() -> str | None:
    """Return why /dev/net/tun cannot be used and how to fix it, or None if it can."""
    try:
        device = os.open("/dev/net/tun", os.O_RDWR)
    except FileNotFoundError:
        return "there is no /dev/net/tun, which user-space switches need; sudo modprobe tun"
    except OSError as error:
        return (
            f"/dev/net/tun cannot be opened ({error.strerror}), which user-space switches need; "
            "sudo chmod 666 /dev/net/tun (the usual setting), or run with sudo"
        )
    try:
        fcntl.ioctl(device, _TUNGETFEATURES, bytes(4))
    except OSError:
        return (
            "/dev/net/tun opens, but is not a tun device; give this machine or container the real "
            "one (--device /dev/net/tun), or sudo mknod /dev/net/tun c 10 200"
        )
    finally:
        os.close(device)
    return None
