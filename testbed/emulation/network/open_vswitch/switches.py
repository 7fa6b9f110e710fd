"""The private Open vSwitch of a sandbox: one daemon, or several that share the bridges.

A user-space daemon searches and polls all its ports for each port that is added and for each packet
that arrives, so the time grows with the square of the number of ports. A large network has several
daemons with shares of a fixed size, and the time grows linearly.
"""

import fcntl
import json
import os
import socket
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
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

# Time limit for forgetting flows.
_FORGET_S = 10.0

# Time limit for a trial of the kernel's datapath.
_PROBE_S = 5.0

# Asks a tun device for its features, and changes nothing (linux/if_tun.h).
_TUNGETFEATURES = 0x800454CF

# Time limit for setting up bridges: a fixed part, and a part for each row of the database.
_BRIDGES_LIMIT_S = 60.0
_OPERATION_LIMIT_S = 0.01

# The daemons are asked whether they are done at intervals that grow from the first to the second.
_MIN_POLL_S = 0.002
_MAX_POLL_S = 0.02
_POLL_GROWTH = 1.3

#: Largest number of ports for which one user-space daemon has all bridges. Swiss-T1, the optical
#: cloud and 115 mobile nodes (972 ports) have one daemon.
MAX_PORTS = 1100

#: Number of ports of each of several daemons. With 1000 switches (9,100 ports), the daemons took
#: this processor time and memory: 6.5 s and 815 MB with shares of 250 ports, 6.4 s and 621 MB with
#: 500, 8.5 s and 527 MB with 1000, 9.7 s and 475 MB with 2000, and 28 s with one daemon.
SHARE_PORTS = 500


class PrivateSwitches:
    """The switch daemons of this sandbox.

    Args:
        datapath: Switch packets in the kernel or in user space.
        shares: Names of the bridges of each daemon.
    """

    def __init__(self, datapath: Datapath, shares: Sequence[Sequence[str]] = ((),)) -> None:
        self.datapath: Datapath = datapath
        directory = require_sandbox()
        alone = len(shares) == 1
        self._shares = [tuple(share) for share in shares]
        self._daemons = [
            SwitchDaemon(datapath, directory, number=number, alone=alone)
            for number in range(len(shares))
        ]

    @property
    def releases_ports_first(self) -> bool:
        """Return whether ``stop`` must be called before the interfaces are deleted.

        Each deleted interface is reported to each socket that still listens to one, so several
        daemons should end first. One daemon should end last, because it would otherwise take its
        tap interfaces down one by one; several daemons have none.
        """
        return len(self._daemons) > 1

    def start(self) -> None:
        """Start all daemons.

        If there are several, they are paused until ``set_up``: otherwise each of them would be
        notified of every interface that is created meanwhile.

        Raises:
            CapabilityError: A program is missing, or does not start in time.
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
        """Have the daemons carry out operations on bridges, and wait until they have.

        Args:
            operations: Returns the operations for the names of a daemon's bridges and Open
                vSwitch's datapath type.
            bridges: Operate on these bridges only; None for all. A bridge that no daemon has is
                given to the last daemon.

        Raises:
            CapabilityError: An operation is refused, or a port cannot be set up.
            InvalidRunError: The daemons do not finish in time (60 s, and 10 ms for each row of the
                database).
        """
        requested_bridges = set(bridges or ())
        known_bridges = set[str]().union(*self._shares)
        new_bridges = [name for name in bridges or () if name not in known_bridges]
        self._shares[-1] += tuple(new_bridges)
        operation_count = 0
        interfaces = set()
        for daemon, share in zip(self._daemons, self._shares, strict=True):
            chosen = share
            if bridges is not None:
                chosen = tuple(name for name in share if name in requested_bridges)
            required: Sequence[JsonObject] = ()
            if chosen or bridges is None:
                required = operations(chosen, daemon.datapath_type)
            operation_count += len(required)
            for operation in required:
                if operation.get("table") == "Interface":
                    interfaces.add(operation["row"]["name"])
            daemon.transact(required)
            daemon.pause(on=False)
        self._await(_BRIDGES_LIMIT_S + _OPERATION_LIMIT_S * operation_count)
        self._require_interfaces(interfaces)

    def _require_interfaces(self, interfaces: set[str]) -> None:
        """Raise CapabilityError if a daemon could not set up one of these interfaces."""
        errors = []
        for daemon in self._daemons:
            for name, text in daemon.errors():
                if name in interfaces:
                    errors.append(text)
        if errors:
            raise CapabilityError(
                f"Open vSwitch could not set up {len(errors)} ports, the first {errors[0]}"
            )

    def database_of(self, bridge: str) -> Path:
        """Return the socket of the database that has a bridge; of the last one for a new bridge."""
        for daemon, share in zip(self._daemons, self._shares, strict=True):
            if bridge in share:
                return daemon.database
        return self._daemons[-1].database

    def connected(self) -> set[str]:
        """Return the bridges (their devices) that are connected to a controller now."""
        connected = set()
        for daemon in self._daemons:
            connected.update(daemon.connected())
        return connected

    def ended(self) -> str | None:
        """Return which program of Open vSwitch has ended by itself, and how, or None."""
        reports = [daemon.ended() for daemon in self._daemons]
        return next((report for report in reports if report is not None), None)

    def _await(self, limit_s: float) -> None:
        """Wait until all daemons have applied their last transaction."""
        deadline_s = time.monotonic() + limit_s
        pause_s = _MIN_POLL_S
        waiting = _unapplied(zip(self._daemons, self._shares, strict=True))
        while waiting:
            if time.monotonic() > deadline_s:
                missing = sum(len(share) for _, share in waiting)
                total = sum(len(share) for share in self._shares)
                raise InvalidRunError(
                    f"ovs-vswitchd set up {total - missing} of {total} switches within "
                    f"{limit_s:.0f} s: this machine is too slow or too busy for the network; "
                    "retry when it is idle, or use several machines (--machines)"
                )
            time.sleep(pause_s)
            pause_s = min(_MAX_POLL_S, pause_s * _POLL_GROWTH)
            waiting = _unapplied(waiting)

    def pause(self) -> None:
        """Pause the daemons, so that they do not react to the interfaces that are now deleted."""
        for daemon in self._daemons:
            daemon.pause()

    def stop(self) -> None:
        """End all daemons at once; the caller removes the interfaces that they created."""
        if self.datapath == "user":
            switch_pids = [daemon.switch_pid for daemon in self._daemons]
            release_sockets([pid for pid in switch_pids if pid is not None])
        for daemon in self._daemons:
            daemon.stop()
        if self.datapath == "kernel":
            # The kernel's datapath outlives its daemon.
            subprocess.run(
                ["ovs-dpctl", "del-dp", "ovs-system"], capture_output=True, timeout=10, check=False
            )


def _unapplied(
    daemons: Iterable[tuple[SwitchDaemon, tuple[str, ...]]],
) -> list[tuple[SwitchDaemon, tuple[str, ...]]]:
    """Return the daemons, with their shares, that have not yet applied their last transaction."""
    return [(daemon, share) for daemon, share in daemons if not daemon.is_applied()]


def flush_flow_cache() -> None:
    """Have the switches look up every packet in their tables from now on.

    The daemon caches the flows of earlier packets. It answers a barrier as soon as the tables are
    changed, but revises its cache some tens of milliseconds later, and forwards by the old flows
    until then.

    Raises:
        CapabilityError: A daemon does not answer.
    """
    order_daemons("revalidator/purge", limit_s=_FORGET_S, task="forget its flows")


def order_daemons(order: str, *, limit_s: float, task: str) -> None:
    """Give all daemons of this sandbox a command, and wait until all have carried it out.

    Args:
        order: The command, as for ovs-appctl.
        limit_s: Time limit in seconds.
        task: The command in the words of a message: "ovs-vswitchd did not ``task``".

    Raises:
        CapabilityError: A daemon does not carry it out in time, or there is no daemon.
    """
    paths = sorted(_run_directory().glob("ovs-vswitchd*.ctl"))
    if not paths:
        raise CapabilityError(f"ovs-vswitchd did not {task}: it is not running")
    request = json.dumps({"id": 1, "method": order, "params": []}).encode()
    with ExitStack() as stack:
        sockets = []
        for _ in paths:
            sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            sockets.append(stack.enter_context(sock))
        try:
            # All daemons get the command before the first answer is awaited, so that they work at
            # the same time.
            for sock, path in zip(sockets, paths, strict=True):
                sock.settimeout(limit_s)
                sock.connect(str(path))
                sock.sendall(request)
            errors = [json.loads(sock.recv(1 << 16))["error"] for sock in sockets]
        except TimeoutError:
            raise CapabilityError(f"ovs-vswitchd did not {task} within {limit_s:g} s") from None
        except (OSError, ValueError) as error:
            raise CapabilityError(f"ovs-vswitchd did not {task}: {error}") from None
    refusals = [error for error in errors if error is not None]
    if refusals:
        raise CapabilityError(f"ovs-vswitchd did not {task}: {str(refusals[0]).strip()}")


def connect_bridge(bridge: str) -> socket.socket:
    """Return a connection to the management socket of a bridge.

    Raises:
        CapabilityError: There is no such bridge.
    """
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
    """Return the directory of the daemons' sockets."""
    return Path(os.environ.get("OVS_RUNDIR", "/var/run/openvswitch"))


def probe_kernel_datapath() -> str | None:
    """Create a datapath in the kernel and delete it; works only in a sandbox.

    Returns:
        None if it works, and otherwise the reason.
    """
    require_sandbox()
    try:
        for order in ("add-dp", "del-dp"):
            run_tool("ovs-dpctl", order, "probe", limit_s=_PROBE_S)
    except CapabilityError as refusal:
        return str(refusal)
    return None


def choose_datapath() -> Datapath:
    """Return the kernel's datapath if it works, and user space if not; only in a sandbox.

    User space needs /dev/net/tun. ``TESTBED_DATAPATH`` (kernel or user) overrides the choice.

    Raises:
        CapabilityError: Neither works, or the one in ``TESTBED_DATAPATH`` does not.
    """
    requested = os.environ.get("TESTBED_DATAPATH")
    if requested not in (None, "", "kernel", "user"):
        raise CapabilityError(
            f"TESTBED_DATAPATH is {requested!r}; set it to kernel or user, or unset it"
        )
    if requested == "user":
        return "user"
    refusal = probe_kernel_datapath()
    if refusal is None:
        return "kernel"
    if requested == "kernel":
        raise CapabilityError(
            f"no Open vSwitch datapath in the kernel ({refusal}); sudo modprobe openvswitch"
        )
    problem = tun_problem()
    if problem is not None:
        raise CapabilityError(problem)
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
