"""One Open vSwitch of the sandbox: a database server and a switch daemon, started, spoken to and stopped.

Settings go to the database as one transaction (RFC 7047) over its socket; the daemon reports when it has applied them.
"""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from testbed.errors import CapabilityError
from topologies.text.json_types import JsonObject

Datapath = Literal["kernel", "user"]
_SCHEMA_PLACES = ("/usr/share/openvswitch", "/usr/local/share/openvswitch")
_PARALLEL_CLOSE = Path(__file__).with_name("parallel_close.py")
_CLOSING_PROCESSES = 32
_START_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 60.0
_RELEASE_LIMIT_S = 5.0
# Time for a program that has closed its connection to end.
_END_S = 1.0
_PROGRAMS = ("ovsdb-server", "ovs-vswitchd")
_STATISTICS_MS = 600_000
"""Between two readings of interface statistics, which nobody here asks the daemon for: each waits for a lock that all
network namespaces of the machine share, and no packet moves meanwhile."""
_REPORT_S = 0.5
_TRIES = 10
_GREETED_LATE = re.compile(
    r"failed to (open|connect to) socket \((Broken pipe|Connection reset by peer)\)$"
)
"""What a program says that has asked nothing yet: the daemon closes a connection on which it hears nothing for a
second, as on a machine that is too busy."""
_NICENESS = -10
"""Of the switch daemon: a switch that waits for a processor loses packets, which no network of the model does."""


class SwitchDaemon:
    """One ovsdb-server and one ovs-vswitchd. ``number``: of the sandbox's daemons, from 0; ``directory``: the
    sandbox's.

    ``alone``: it has all bridges. Daemons that share a network namespace must not make tap interfaces, whose names
    would meet (``ovs-netdev``): they run the same user-space datapath as Open vSwitch's class ``dummy``, which differs
    in that only.
    """

    def __init__(
        self, datapath: Datapath, directory: Path, *, number: int = 0, alone: bool = True
    ) -> None:
        self.datapath_type = "system" if datapath == "kernel" else "netdev" if alone else "dummy"
        self._suffix = f"-{number}" if number else ""
        self._directory = directory
        self.database = directory / "run" / f"db{self._suffix}.sock"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connection: socket.socket | None = None
        self._buffer = ""
        self._requests = 0
        self._awaited = 0
        self._statistics_ms = _STATISTICS_MS

    def start(self) -> None:
        """Start both; CapabilityError where a program is missing or does not come up in time."""
        database = self._directory / "db" / f"conf{self._suffix}.db"
        database.unlink(missing_ok=True)
        run_tool("ovsdb-tool", "create", str(database), str(_schema()), limit_s=_START_LIMIT_S)
        run, path = self._directory / "run", self.database
        control = [] if not self._suffix else [f"--unixctl={run}/ovsdb-server{self._suffix}.ctl"]
        self._spawn("ovsdb-server", str(database), f"--remote=punix:{path}", "--no-chdir", *control)
        self._connect(path)
        self._request([{"op": "insert", "table": "Open_vSwitch", "row": self._settings()}])
        # Nothing here is tunnelled by the daemon: following the routing table costs it a list of all interfaces a
        # bridge.
        system = (
            () if self.datapath_type == "system" else ("--disable-system", "--disable-system-route")
        )
        without_taps = ("--enable-dummy",) if self.datapath_type == "dummy" else ()
        control = [] if not self._suffix else [f"--unixctl={run}/ovs-vswitchd{self._suffix}.ctl"]
        pidfile = f"--pidfile={run}/ovs-vswitchd{self._suffix}.pid"
        self._spawn(
            "ovs-vswitchd", f"unix:{path}", "--no-chdir", pidfile, *control, *system, *without_taps
        )
        with contextlib.suppress(
            PermissionError
        ):  # an ordinary user's switches wait their turn like everything else
            os.setpriority(os.PRIO_PROCESS, self._processes[-1].pid, _NICENESS)

    def transact(self, operations: Sequence[JsonObject]) -> list[JsonObject]:
        """Carry out one transaction and have the daemon apply it (``is_applied``).

        Raises CapabilityError with the database's words where an operation is refused.
        """
        root: JsonObject = {"table": "Open_vSwitch", "where": []}
        bump = [
            {"op": "mutate", **root, "mutations": [["next_cfg", "+=", 1]]},
            {"op": "select", **root, "columns": ["next_cfg"]},
        ]
        results = self._request([*operations, *bump])
        self._awaited = results[-1]["rows"][0]["next_cfg"]
        return results

    def is_applied(self) -> bool:
        """Whether the daemon has done what the last transaction requested. CapabilityError where it has ended."""
        rows = self._request(
            [{"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"]}]
        )
        if rows[0]["rows"][0]["cur_cfg"] >= self._awaited:
            return True
        ended = self.ended()
        if ended is not None:
            raise CapabilityError(ended)
        return False

    def ended(self, wait_s: float = 0.0) -> str | None:
        """Return which of the two programs has ended by itself, and how, or None if both run.

        Args:
            wait_s: Time for a program that is just ending.
        """
        for program, process in zip(_PROGRAMS, self._processes, strict=False):
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(wait_s)
                return f"{program} ended: {self._reason(program, status)}"
        return None

    def _reason(self, program: str, status: int) -> str:
        if status == -signal.SIGKILL:
            return "it was killed (signal 9); the machine may be out of memory"
        if status < 0:
            return f"signal {-status} ended it; {self._last_words(program)}"
        return self._last_words(program)

    def errors(self) -> list[tuple[str, str]]:
        """Interfaces that the daemon could not set up, and its reason for each."""
        query = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "error"]}
        rows = self._request([query])[0]["rows"]
        return [
            (row["name"], f"{row['name']}: {row['error']}")
            for row in rows
            if isinstance(row["error"], str) and row["error"]
        ]

    def connected(self) -> list[str]:
        """Bridges that are connected to a controller. The daemon tells the database with its statistics only, and
        makes those at once where the time between two of them is changed."""
        self._statistics_ms += 1
        self.transact(
            [{"op": "update", "table": "Open_vSwitch", "where": [], "row": self._settings()}]
        )
        limit = time.monotonic() + _REPORT_S
        while not self.is_applied() and time.monotonic() < limit:
            time.sleep(0.005)
        time.sleep(_REPORT_S / 10)
        live = {
            "op": "select",
            "table": "Controller",
            "where": [["is_connected", "==", True]],
            "columns": ["_uuid"],
        }
        bridges = {
            "op": "select",
            "table": "Bridge",
            "where": [],
            "columns": ["name", "controller"],
        }
        controllers, found = self._request([live, bridges])
        numbers = [row["_uuid"][1] for row in controllers["rows"]]
        return [
            row["name"]
            for row in found["rows"]
            if any(one in str(row["controller"]) for one in numbers)
        ]

    def _settings(self) -> JsonObject:
        return {"other_config": ["map", [["stats-update-interval", str(self._statistics_ms)]]]}

    def _request(self, operations: Sequence[JsonObject]) -> list[JsonObject]:
        assert self._connection is not None
        self._requests += 1
        message = {
            "method": "transact",
            "params": ["Open_vSwitch", *operations],
            "id": self._requests,
        }
        try:
            self._connection.sendall(json.dumps(message).encode())
            answer = self._answer(self._requests)
        except TimeoutError:
            raise CapabilityError(
                f"ovsdb-server gave no answer within {_ANSWER_LIMIT_S:g} s"
            ) from None
        except OSError as error:
            ended = self.ended(_END_S) or f"ovsdb-server ended: {error.strerror}"
            raise CapabilityError(ended) from None
        results: list[JsonObject] = answer.get("result") or []
        wrong = [r for r in results if r and r.get("error")]
        if answer.get("error") or wrong:
            raise CapabilityError(
                f"Open vSwitch refused a setting: {json.dumps(wrong or answer.get('error'))}"
            )
        return results

    def _answer(self, request: int) -> JsonObject:
        assert self._connection is not None
        decoder = json.JSONDecoder()
        while True:
            text = self._buffer.lstrip()
            try:
                message, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                part = self._connection.recv(1 << 20)
                if not part:
                    raise ConnectionResetError(
                        errno.ECONNRESET, "it closed the connection"
                    ) from None
                self._buffer = text + part.decode()
                continue
            self._buffer = text[end:]
            if message.get("method") == "echo":
                reply = {"id": message["id"], "result": message["params"], "error": None}
                self._connection.sendall(json.dumps(reply).encode())
            elif message.get("id") == request:
                return dict(message)

    def pause(self, *, on: bool = True) -> None:
        """Let the daemon do nothing, or go on."""
        if len(self._processes) == 2 and self._processes[1].poll() is None:
            self._processes[1].send_signal(signal.SIGSTOP if on else signal.SIGCONT)

    @property
    def switch_pid(self) -> int | None:
        """The process of ovs-vswitchd, while it runs."""
        running = len(self._processes) == 2 and self._processes[1].poll() is None
        return self._processes[1].pid if running else None

    def stop(self) -> None:
        """End both at once (see ``release_sockets``); what they made is the network's to remove."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None
        for process in reversed(self._processes):
            process.kill()
        for process in self._processes:
            process.wait(60)
        self._remove_control_sockets()
        self._processes.clear()

    def _remove_control_sockets(self) -> None:
        """Those that were killed leave them behind, and the sandbox's next network would be ordered about by them
        too."""
        for program, process in zip(_PROGRAMS, self._processes, strict=False):
            name = f"{program}{self._suffix or f'.{process.pid}'}.ctl"
            (self._directory / "run" / name).unlink(missing_ok=True)

    def _spawn(self, program: str, *arguments: str) -> None:
        with open(self._log(program), "ab") as log:
            words = [_program(program), *arguments, "-vconsole:warn", "-vsyslog:off", "-vfile:off"]
            self._processes.append(
                subprocess.Popen(
                    words,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd="/",
                    start_new_session=True,
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
            connection.settimeout(_ANSWER_LIMIT_S)
            self._connection = connection
            return
        ended = self.ended() or f"ovsdb-server does not answer: {self._last_words('ovsdb-server')}"
        raise CapabilityError(ended)

    def _log(self, program: str) -> Path:
        return self._directory / "log" / f"{program}{self._suffix}.log"

    def _last_words(self, program: str) -> str:
        lines = self._log(program).read_text(errors="replace").strip().splitlines()
        return with_hint(lines[-1]) if lines else "it wrote nothing"


def with_hint(words: str) -> str:
    """A daemon's last words, and what to do about them where that is known: its temporary files are always in /tmp.

    >>> with_hint("failed to create temporary file (Read-only file system)").split("; ")[1]
    'it needs a /tmp that can be written: mount a tmpfs there (containers: --tmpfs /tmp)'
    """
    if "failed to create temporary file" not in words:
        return words
    return f"{words}; it needs a /tmp that can be written: mount a tmpfs there (containers: --tmpfs /tmp)"


def release_sockets(pids: Sequence[int]) -> None:
    """End these daemons without waiting a grace period for every port (see ``parallel_close``)."""
    helpers = max(4, _CLOSING_PROCESSES // max(1, len(pids)))
    words = [sys.executable, "-I", "-S", str(_PARALLEL_CLOSE)]
    quiet = subprocess.DEVNULL
    closing = [
        subprocess.Popen([*words, str(pid), str(helpers)], stdin=quiet, stdout=quiet, stderr=quiet)
        for pid in pids
    ]
    limit = time.monotonic() + _RELEASE_LIMIT_S * len(closing)
    for one in closing:
        try:
            one.wait(max(0.0, limit - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def _program(name: str) -> str:
    found = shutil.which(name) or shutil.which(name, path="/usr/local/sbin:/usr/sbin:/sbin")
    if found is None:
        raise CapabilityError(
            f"{name} is not installed; install Open vSwitch: apt-get install openvswitch-switch"
        )
    return found


def _schema() -> Path:
    for place in _SCHEMA_PLACES:
        path = Path(place) / "vswitch.ovsschema"
        if path.exists():
            return path
    raise CapabilityError(
        "vswitch.ovsschema is missing; install Open vSwitch: apt-get install openvswitch-switch"
    )


def run_tool(name: str, *words: str, limit_s: float, input_text: str = "") -> str:
    """What one of Open vSwitch's programs prints; CapabilityError where it fails, or does not end in time."""
    command, said = [_program(name), *words], " ".join([name, *words])
    for _ in range(_TRIES):
        try:
            done = subprocess.run(
                command,
                input=input_text,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CapabilityError(f"{said} did not end within {limit_s:g} s") from None
        if done.returncode == 0:
            return done.stdout
        if not _GREETED_LATE.search(done.stderr.rstrip()):
            break
    raise CapabilityError(f"{said}: {_failure(done)}")


def _failure(done: subprocess.CompletedProcess[str]) -> str:
    """Return why a program has failed."""
    if done.returncode == -signal.SIGXFSZ:
        return "its file is larger than this process may write; raise the limit (ulimit -f)"
    if done.returncode < 0:
        return f"signal {-done.returncode} ended it"
    return " ".join(done.stderr.strip().splitlines()[-1:]) or "refused"
