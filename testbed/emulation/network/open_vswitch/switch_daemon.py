"""One Open vSwitch of the sandbox: starts, configures and stops a database server and a daemon.

Settings are sent to the database (OVSDB, RFC 7047) as one transaction over its socket. The daemon
reports when it has applied them.
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
_SCHEMA_FOLDERS = ("/usr/share/openvswitch", "/usr/local/share/openvswitch")
_SYSTEM_PATH = "/usr/local/sbin:/usr/sbin:/sbin"
_PARALLEL_CLOSE = Path(__file__).with_name("parallel_close.py")
_PROGRAMS = ("ovsdb-server", "ovs-vswitchd")

# Number of helper processes that close the sockets of all daemons, and minimum number for each
# daemon.
_CLOSING_PROCESSES = 32
_MIN_CLOSING_PROCESSES = 4

_START_LIMIT_S = 60.0
_ANSWER_LIMIT_S = 60.0
_RELEASE_LIMIT_S = 5.0

# Time for a program that has closed its connection to end.
_END_S = 1.0

_POLL_S = 0.005

# Interval between two readings of interface statistics. The daemon needs none. Each reading waits
# for a lock that all network namespaces of the machine share, and no packet moves meanwhile.
_STATISTICS_MS = 600_000

# The daemon reports its connections to controllers within this time.
_REPORT_S = 0.5

# The daemon closes a connection on which it has received nothing for a second, as may happen on a
# busy machine. A program that had not yet sent its request prints this error, and is run again.
_GREETED_LATE = re.compile(
    r"failed to (open|connect to) socket \((Broken pipe|Connection reset by peer)\)$"
)
_TRIES = 10

# A switch that waits for a processor loses packets, which no network of the model does.
_NICENESS = -10


class SwitchDaemon:
    """One ovsdb-server and one ovs-vswitchd.

    A user-space datapath of type ``netdev`` creates a tap interface, ``ovs-netdev``. If several
    daemons share a network namespace, these names would collide. Therefore such daemons use the
    type ``dummy``, which is the same user-space datapath without tap interfaces.

    Args:
        datapath: Switch packets in the kernel or in user space.
        directory: The directory of the sandbox.
        number: Number of this daemon in the sandbox, from 0.
        alone: No other daemon runs in the sandbox.

    Attributes:
        datapath_type: Open vSwitch's name for the kind of datapath.
        database: Path of the database's socket.
    """

    def __init__(
        self, datapath: Datapath, directory: Path, *, number: int = 0, alone: bool = True
    ) -> None:
        if datapath == "kernel":
            self.datapath_type = "system"
        elif alone:
            self.datapath_type = "netdev"
        else:
            self.datapath_type = "dummy"
        self._suffix = f"-{number}" if number else ""
        self._directory = directory
        self.database = directory / "run" / f"db{self._suffix}.sock"
        self._processes: list[subprocess.Popen[bytes]] = []
        self._connection: socket.socket | None = None
        self._buffer = ""
        self._last_request = 0
        self._awaited_config = 0
        self._statistics_ms = _STATISTICS_MS

    def start(self) -> None:
        """Start both programs.

        Raises:
            CapabilityError: A program is missing, or does not start in time.
        """
        database = self._directory / "db" / f"conf{self._suffix}.db"
        database.unlink(missing_ok=True)
        run_tool("ovsdb-tool", "create", str(database), str(_schema()), limit_s=_START_LIMIT_S)
        run = self._directory / "run"
        self._spawn(
            "ovsdb-server",
            str(database),
            f"--remote=punix:{self.database}",
            "--no-chdir",
            *self._control_options("ovsdb-server"),
        )
        self._connect(self.database)
        self._request([{"op": "insert", "table": "Open_vSwitch", "row": self._settings()}])

        options = [f"--pidfile={run}/ovs-vswitchd{self._suffix}.pid"]
        options += self._control_options("ovs-vswitchd")
        if self.datapath_type != "system":
            # The daemon makes no tunnels. If it followed the routing table, it would list all
            # interfaces for each bridge.
            options += ["--disable-system", "--disable-system-route"]
        if self.datapath_type == "dummy":
            options.append("--enable-dummy")
        self._spawn("ovs-vswitchd", f"unix:{self.database}", "--no-chdir", *options)
        # An ordinary user may not raise the priority, so that his switches wait their turn.
        with contextlib.suppress(PermissionError):
            os.setpriority(os.PRIO_PROCESS, self._processes[-1].pid, _NICENESS)

    def _control_options(self, program: str) -> list[str]:
        """Return the option that names the control socket; the first daemon has the default."""
        if not self._suffix:
            return []
        return [f"--unixctl={self._directory}/run/{program}{self._suffix}.ctl"]

    def transact(self, operations: Sequence[JsonObject]) -> list[JsonObject]:
        """Carry out one transaction, which the daemon then applies (``is_applied``).

        Returns:
            The database's result of each operation.

        Raises:
            CapabilityError: An operation is refused; the message is the database's.
        """
        root: JsonObject = {"table": "Open_vSwitch", "where": []}
        increment = {"op": "mutate", **root, "mutations": [["next_cfg", "+=", 1]]}
        select = {"op": "select", **root, "columns": ["next_cfg"]}
        results = self._request([*operations, increment, select])
        self._awaited_config = results[-1]["rows"][0]["next_cfg"]
        return results

    def is_applied(self) -> bool:
        """Return whether the daemon has applied the last transaction.

        Raises:
            CapabilityError: The daemon has ended.
        """
        select = {"op": "select", "table": "Open_vSwitch", "where": [], "columns": ["cur_cfg"]}
        results = self._request([select])
        if results[0]["rows"][0]["cur_cfg"] >= self._awaited_config:
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
            # A program that still runs lets ``wait`` time out.
            with contextlib.suppress(subprocess.TimeoutExpired):
                status = process.wait(wait_s)
                return f"{program} ended: {self._reason(program, status)}"
        return None

    def _reason(self, program: str, status: int) -> str:
        """Return why a program has ended.

        Args:
            program: The program.
            status: Its exit code, or minus the number of the signal.
        """
        if status == -signal.SIGKILL:
            return "it was killed (signal 9); the machine may be out of memory"
        if status < 0:
            return f"signal {-status} ended it; {self._last_line(program)}"
        return self._last_line(program)

    def errors(self) -> list[tuple[str, str]]:
        """Return each interface that the daemon could not set up, and the daemon's reason."""
        query = {"op": "select", "table": "Interface", "where": [], "columns": ["name", "error"]}
        errors = []
        for row in self._request([query])[0]["rows"]:
            name = row["name"]
            error = row["error"]
            # An interface without an error has an empty set here.
            if isinstance(error, str) and error:
                errors.append((name, f"{name}: {error}"))
        return errors

    def connected(self) -> list[str]:
        """Return the bridges that are connected to a controller.

        The daemon reports connections to the database together with its statistics, and only then.
        It reads these at once when their interval is changed.
        """
        self._statistics_ms += 1
        self.transact(
            [{"op": "update", "table": "Open_vSwitch", "where": [], "row": self._settings()}]
        )
        deadline_s = time.monotonic() + _REPORT_S
        while not self.is_applied() and time.monotonic() < deadline_s:
            time.sleep(_POLL_S)
        # The statistics follow the settings shortly.
        time.sleep(_REPORT_S / 10)
        live = {
            "op": "select",
            "table": "Controller",
            "where": [["is_connected", "==", True]],
            "columns": ["_uuid"],
        }
        all_bridges = {
            "op": "select",
            "table": "Bridge",
            "where": [],
            "columns": ["name", "controller"],
        }
        controllers, bridges = self._request([live, all_bridges])
        uuids = [row["_uuid"][1] for row in controllers["rows"]]
        connected = []
        for row in bridges["rows"]:
            references = str(row["controller"])
            if any(uuid in references for uuid in uuids):
                connected.append(row["name"])
        return connected

    def _settings(self) -> JsonObject:
        return {"other_config": ["map", [["stats-update-interval", str(self._statistics_ms)]]]}

    def _request(self, operations: Sequence[JsonObject]) -> list[JsonObject]:
        """Carry out a transaction, and return the result of each operation."""
        assert self._connection is not None
        self._last_request += 1
        message = {
            "method": "transact",
            "params": ["Open_vSwitch", *operations],
            "id": self._last_request,
        }
        try:
            self._connection.sendall(json.dumps(message).encode())
            answer = self._answer(self._last_request)
        except TimeoutError:
            raise CapabilityError(
                f"ovsdb-server gave no answer within {_ANSWER_LIMIT_S:g} s"
            ) from None
        except OSError as error:
            ended = self.ended(_END_S) or f"ovsdb-server ended: {error.strerror}"
            raise CapabilityError(ended) from None
        results: list[JsonObject] = answer.get("result") or []
        refused = [result for result in results if result and result.get("error")]
        if answer.get("error") or refused:
            raise CapabilityError(
                f"Open vSwitch refused a setting: {json.dumps(refused or answer.get('error'))}"
            )
        return results

    def _answer(self, request: int) -> JsonObject:
        """Return the database's answer to a request; answer its own echo requests meanwhile."""
        assert self._connection is not None
        decoder = json.JSONDecoder()
        while True:
            text = self._buffer.lstrip()
            try:
                message, end = decoder.raw_decode(text)
            except json.JSONDecodeError:
                # The message is incomplete.
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
        """Stop the daemon by SIGSTOP, or let it continue.

        Args:
            on: Stop if true, and continue if not.
        """
        if len(self._processes) == 2 and self._processes[1].poll() is None:
            number = signal.SIGSTOP if on else signal.SIGCONT
            self._processes[1].send_signal(number)

    @property
    def switch_pid(self) -> int | None:
        """The process id of ovs-vswitchd, or None if it does not run."""
        running = len(self._processes) == 2 and self._processes[1].poll() is None
        return self._processes[1].pid if running else None

    def stop(self) -> None:
        """End both programs at once (see ``release_sockets``).

        The caller removes the interfaces that they created.
        """
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
        """Delete the control sockets, which killed programs leave behind.

        Otherwise the commands of the sandbox's next network would be sent to them too.
        """
        for program, process in zip(_PROGRAMS, self._processes, strict=False):
            suffix = self._suffix or f".{process.pid}"
            (self._directory / "run" / f"{program}{suffix}.ctl").unlink(missing_ok=True)

    def _spawn(self, program: str, *arguments: str) -> None:
        logging = ("-vconsole:warn", "-vsyslog:off", "-vfile:off")
        with open(self._log(program), "ab") as log:
            process = subprocess.Popen(
                [_program(program), *arguments, *logging],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                start_new_session=True,
            )
        self._processes.append(process)

    def _connect(self, path: Path) -> None:
        """Connect to the database as soon as its server listens."""
        deadline_s = time.monotonic() + _START_LIMIT_S
        while time.monotonic() < deadline_s and self._processes[-1].poll() is None:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            try:
                connection.connect(str(path))
            except OSError:
                # The server does not listen yet.
                connection.close()
                time.sleep(_POLL_S)
                continue
            connection.settimeout(_ANSWER_LIMIT_S)
            self._connection = connection
            return
        ended = self.ended() or f"ovsdb-server does not answer: {self._last_line('ovsdb-server')}"
        raise CapabilityError(ended)

    def _log(self, program: str) -> Path:
        return self._directory / "log" / f"{program}{self._suffix}.log"

    def _last_line(self, program: str) -> str:
        """Return the last line of a program's log, with a hint if there is one."""
        lines = self._log(program).read_text(errors="replace").strip().splitlines()
        return with_hint(lines[-1]) if lines else "it wrote nothing"


def with_hint(line: str) -> str:
    """Add to the last line of a daemon's log what to do about it, if that is known.

    The temporary files of a daemon are always in /tmp.

    >>> with_hint("failed to create temporary file (Read-only file system)").split("; ")[1]
    'it needs a /tmp that can be written: mount a tmpfs there (containers: --tmpfs /tmp)'
    """
    if "failed to create temporary file" not in line:
        return line
    return (
        f"{line}; it needs a /tmp that can be written: mount a tmpfs there "
        "(containers: --tmpfs /tmp)"
    )


def release_sockets(pids: Sequence[int]) -> None:
    """Kill these daemons, and close their packet sockets in parallel (see ``parallel_close``).

    Otherwise the kernel would wait for an RCU grace period for every port, one after the other.
    """
    helpers = max(_MIN_CLOSING_PROCESSES, _CLOSING_PROCESSES // max(1, len(pids)))
    program = [sys.executable, "-I", "-S", str(_PARALLEL_CLOSE)]
    quiet = subprocess.DEVNULL
    closers = []
    for pid in pids:
        argv = [*program, str(pid), str(helpers)]
        closers.append(subprocess.Popen(argv, stdin=quiet, stdout=quiet, stderr=quiet))
    deadline_s = time.monotonic() + _RELEASE_LIMIT_S * len(closers)
    for closer in closers:
        try:
            closer.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            closer.kill()
            closer.wait()


def _program(name: str) -> str:
    """Return the path of a program of Open vSwitch, which may be missing in an ordinary PATH."""
    path = shutil.which(name) or shutil.which(name, path=_SYSTEM_PATH)
    if path is None:
        raise CapabilityError(
            f"{name} is not installed; install Open vSwitch: apt-get install openvswitch-switch"
        )
    return path


def _schema() -> Path:
    for folder in _SCHEMA_FOLDERS:
        path = Path(folder) / "vswitch.ovsschema"
        if path.exists():
            return path
    raise CapabilityError(
        "vswitch.ovsschema is missing; install Open vSwitch: apt-get install openvswitch-switch"
    )


def run_tool(name: str, *arguments: str, limit_s: float, input_text: str = "") -> str:
    """Run one of Open vSwitch's programs, and return its output.

    Args:
        name: The program.
        arguments: Its arguments.
        limit_s: Time limit in seconds.
        input_text: Its standard input.

    Raises:
        CapabilityError: It fails, or does not end in time.
    """
    argv = [_program(name), *arguments]
    command = " ".join([name, *arguments])
    for _ in range(_TRIES):
        try:
            finished = subprocess.run(
                argv,
                input=input_text,
                capture_output=True,
                text=True,
                timeout=limit_s,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise CapabilityError(f"{command} did not end within {limit_s:g} s") from None
        if finished.returncode == 0:
            return finished.stdout
        if not _GREETED_LATE.search(finished.stderr.rstrip()):
            break
    raise CapabilityError(f"{command}: {_failure(finished)}")


def _failure(finished: subprocess.CompletedProcess[str]) -> str:
    """Return why a program has failed."""
    if finished.returncode == -signal.SIGXFSZ:
        return "its file is larger than this process may write; raise the limit (ulimit -f)"
    if finished.returncode < 0:
        return f"signal {-finished.returncode} ended it"
    return " ".join(finished.stderr.strip().splitlines()[-1:]) or "refused"
