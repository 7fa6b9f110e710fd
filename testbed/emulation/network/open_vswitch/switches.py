"""The sandbox's private Open vSwitch: its database server and its switch daemon, started, spoken to and stopped.

Settings go to the database as one transaction (RFC 7047) over its socket; the daemon reports when it has applied them.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from testbed.emulation.sandbox.sandbox import require_sandbox
from testbed.errors import CapabilityError

Datapath = Literal["kernel", "user"]
_FORGET_S = 10.0
_SCHEMA_PLACES = ("/usr/share/openvswitch", "/usr/local/share/openvswitch")
_PARALLEL_CLOSE = Path(__file__).with_name("parallel_close.py")
_CLOSING_PROCESSES = 32
_START_LIMIT_S = 15.0
_BRIDGES_LIMIT_S, _OPERATION_LIMIT_S = 60.0, 0.05
_STATISTICS_MS = 600_000
"""Between two readings of interface statistics, which nobody here asks the daemon for: each waits for a lock that all network
namespaces of the machine share, and no packet moves meanwhile."""
_NICENESS = -10
"""Of the switch daemon: a switch that waits for a processor loses packets, which no network of the model does."""


class PrivateSwitches:
    """One ovsdb-server and one ovs-vswitchd, private to this sandbox. ``datapath``: kernel module or user space."""

    def __init__(self, datapath: Datapath) -> None:
        self.datapath: Datapath = datapath
        self._directory = require_sandbox()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connection: socket.socket | None = None
        self._buffer = ""
        self._requests = 0

    def start(self) -> None:
        """Start both; CapabilityError where a program is missing or does not come up in time."""
        database = self._directory / "db" / "conf.db"
        database.unlink(missing_ok=True)
        _run([_program("ovsdb-tool"), "create", str(database), str(_schema())])
        path = self._directory / "run" / "db.sock"
        self._spawn("ovsdb-server", str(database), f"--remote=punix:{path}", "--no-chdir")
        self._connect(path)
        row = {"other_config": ["map", [["stats-update-interval", str(_STATISTICS_MS)]]]}
        self._request([{"op": "insert", "table": "Open_vSwitch", "row": row}])
        # Nothing here is tunnelled by the daemon: following the routing table costs it a list of all interfaces a bridge.
        system = () if self.datapath == "kernel" else ("--disable-system", "--disable-system-route")
        self._spawn("ovs-vswitchd", f"unix:{path}", "--no-chdir", "--pidfile", *system)
        with contextlib.suppress(PermissionError):  # an ordinary user's switches wait their turn like everything else
            os.setpriority(os.PRIO_PROCESS, self._processes[-1].pid, _NICENESS)

    def transact(self, operations: Sequence[dict[str, Any]], *, wait: bool = True) -> list[dict[str, Any]]:
        """Carry out one transaction; with ``wait``, return only when the daemon has applied it.

        Raises CapabilityError with the database's words where an operation is refused.
        """
        root: dict[str, Any] = {"table": "Open_vSwitch", "where": []}
        bump = [
            {"op": "mutate", **root, "mutations": [["next_cfg", "+=", 1]]},
            {"op": "select", **root, "columns": ["next_cfg"]},
        ]
        results = self._request([*operations, *(bump if wait else ())])
        if wait:
            number = results[-1]["rows"][0]["next_cfg"]
            self._await_configuration(number, _BRIDGES_LIMIT_S + _OPERATION_LIMIT_S * len(operations))
        return results

    def _await_configuration(self, number: int, limit_s: float) -> None:
        limit = time.monotonic() + limit_s
        pause = 0.002
        while time.monotonic() < limit:
            rows = self._request([{"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"]}])
            if rows[0]["rows"][0]["cur_cfg"] >= number:
                return
            if self._processes[-1].poll() is not None:
                raise CapabilityError(f"ovs-vswitchd ended by itself: {self._last_words('ovs-vswitchd')}")
            time.sleep(pause)
            pause = min(0.02, pause * 1.3)
        raise CapabilityError(f"ovs-vswitchd did not set the bridges up within {limit_s:.0f} s")

    def errors(self) -> list[str]:
        """Interfaces that the daemon could not set up, with its reason."""
        query = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "error"]}
        rows = self._request([query])[0]["rows"]
        return [f"{row['name']}: {row['error']}" for row in rows if isinstance(row["error"], str) and row["error"]]

    def _request(self, operations: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        assert self._connection is not None
        self._requests += 1
        message = {"method": "transact", "params": ["Open_vSwitch", *operations], "id": self._requests}
        self._connection.sendall(json.dumps(message).encode())
        answer = self._answer(self._requests)
        results: list[dict[str, Any]] = answer.get("result") or []
        wrong = [r for r in results if r and r.get("error")]
        if answer.get("error") or wrong:
            raise CapabilityError(f"Open vSwitch refused a setting: {json.dumps(wrong or answer.get('error'))}")
        return results

    def _answer(self, request: int) -> dict[str, Any]:
        assert self._connection is not None
        decoder = json.JSONDecoder()
        while True:
            text = self._buffer.lstrip()
            try:
                message, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                part = self._connection.recv(1 << 20)
                if not part:
                    raise CapabilityError(f"ovsdb-server ended: {self._last_words('ovsdb-server')}") from None
                self._buffer = text + part.decode()
                continue
            self._buffer = text[end:]
            if message.get("method") == "echo":
                reply = {"id": message["id"], "result": message["params"], "error": None}
                self._connection.sendall(json.dumps(reply).encode())
            elif message.get("id") == request:
                return dict(message)

    def pause(self) -> None:
        """Let the daemon do nothing more, so that it does not chase the interfaces that are now removed."""
        if len(self._processes) == 2 and self._processes[1].poll() is None:
            self._processes[1].send_signal(signal.SIGSTOP)

    def stop(self) -> None:
        """End both at once; what they made is the network's to remove."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        if len(self._processes) == 2 and self.datapath == "user":
            self._release_sockets(self._processes[1])
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait(60)
        self._processes.clear()
        if self.datapath == "kernel":
            subprocess.run(["ovs-dpctl", "del-dp", "ovs-system"], capture_output=True, timeout=10, check=False)

    def _release_sockets(self, daemon: subprocess.Popen[bytes]) -> None:
        """End the daemon without waiting a grace period for every port (see ``parallel_close``)."""
        words = [sys.executable, "-I", "-S", str(_PARALLEL_CLOSE), str(daemon.pid), str(_CLOSING_PROCESSES)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=5, check=False)

    def _spawn(self, program: str, *arguments: str) -> None:
        with open(self._directory / "log" / f"{program}.log", "ab") as log:
            words = [_program(program), *arguments, "-vconsole:warn", "-vsyslog:off", "-vfile:off"]
            self._processes.append(
                subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True
                )
            )

    def _connect(self, path: Path) -> None:
        limit = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < limit and self._processes[-1].poll() is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
            except OSError:
                connection.close()
                time.sleep(0.005)
                continue
            connection.settimeout(_BRIDGES_LIMIT_S)
            self._connection = connection
            return
        raise CapabilityError(f"ovsdb-server does not answer: {self._last_words('ovsdb-server')}")

    def _last_words(self, program: str) -> str:
        lines = (self._directory / "log" / f"{program}.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"


def forget_flows() -> None:
    """Have the switches look every packet from now on up in their tables: they forget what they remember of earlier ones.

    A barrier is answered when the tables are changed; the daemon revises its memory some tens of milliseconds later, and
    goes by it until then. CapabilityError where the daemon does not answer.
    """
    words = ["ovs-appctl", "-t", "ovs-vswitchd", "revalidator/purge"]
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_FORGET_S, check=False)
    except subprocess.TimeoutExpired:
        raise CapabilityError(f"ovs-vswitchd did not forget its flows within {_FORGET_S:g} s") from None
    if done.returncode != 0:
        raise CapabilityError(f"ovs-vswitchd does not forget its flows: {done.stderr.strip()}")


def probe_kernel_datapath() -> str | None:
    """Make a datapath in the kernel and remove it again; None where that works, else the reason. Inside a sandbox only."""
    require_sandbox()
    program = shutil.which("ovs-dpctl")
    if program is None:
        return "ovs-dpctl is not installed"
    try:
        done = subprocess.run([program, "add-dp", "probe"], capture_output=True, text=True, timeout=5, check=False)
        if done.returncode != 0:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "refused"
        subprocess.run([program, "del-dp", "probe"], capture_output=True, timeout=5, check=False)
    except subprocess.TimeoutExpired:
        return "ovs-dpctl does not answer"
    return None


def choose_datapath() -> Datapath:
    """The kernel's datapath where it works, else user space, which needs /dev/net/tun. Inside a sandbox only.

    ``TESTBED_DATAPATH`` (kernel or user) overrides. Raises CapabilityError where neither works.
    """
    asked = os.environ.get("TESTBED_DATAPATH")
    if asked not in (None, "", "kernel", "user"):
        raise CapabilityError(f"TESTBED_DATAPATH is {asked!r}; set it to kernel or user, or unset it")
    if asked == "user":
        return "user"
    refused = probe_kernel_datapath()
    if refused is None:
        return "kernel"
    if asked == "kernel":
        raise CapabilityError(f"no Open vSwitch datapath in the kernel ({refused}); sudo modprobe openvswitch")
    lack = tun_obstacle()
    if lack is not None:
        raise CapabilityError(lack)
    return "user"


def tun_obstacle() -> str | None:
    """None where /dev/net/tun opens for reading and writing, else what is wrong and how to mend it."""
    try:
        os.close(os.open("/dev/net/tun", os.O_RDWR))
    except FileNotFoundError:
        return "there is no /dev/net/tun, which user-space switches need; sudo modprobe tun"
    except OSError as error:
        return (
            f"/dev/net/tun cannot be opened ({error.strerror}), which user-space switches need; "
            "sudo chmod 666 /dev/net/tun (the usual setting), or run with sudo"
        )
    return None


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    if found is None:
        raise CapabilityError(f"{name} is not installed; install Open vSwitch: apt-get install openvswitch-switch")
    return found


def _schema() -> Path:
    for place in _SCHEMA_PLACES:
        path = Path(place) / "vswitch.ovsschema"
        if path.exists():
            return path
    raise CapabilityError("vswitch.ovsschema is missing; install Open vSwitch: apt-get install openvswitch-switch")


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=_START_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise CapabilityError(f"{words[0]} does not answer") from None
    if done.returncode != 0:
        raise CapabilityError(f"{words[0]} failed: {done.stderr.strip()}")
