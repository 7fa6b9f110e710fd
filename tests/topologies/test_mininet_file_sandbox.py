"""A Mininet file reaches nothing outside its sandbox, run by root or by an ordinary user."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import select
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from testbed.api.emulated import topology_program
from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.ordinary_user import as_ordinary_user, open_folder
from topologies.adapters import python_files
from topologies.adapters.python_files import read_python_file
from topologies.errors import LackingError, TopologyError

#: What a file tries, each alone; it prints what succeeded as the names of its switches.
ATTEMPTS = {
    "socket_in_tmp": "connect(socket.AF_UNIX, OUTSIDE + '/agent.sock')",
    "datagram_to_a_socket": (
        "socket.socketpair(type=socket.SOCK_DGRAM)[0].sendto(b'x', OUTSIDE + '/datagrams')"
    ),
    "fifo_elsewhere": "write(OUTSIDE + '/fifo')",
    "fifo_in_its_folder": "write(HERE + '/fifo')",
    "socket_in_its_folder": "connect(socket.AF_UNIX, HERE + '/agent.sock')",
    "another_file": "open(OUTSIDE + '/secret').read()",
    "var": "os.listdir('/var')",
    "run": "os.listdir('/run')",
    "terminal": "write('/dev/tty')",
    "terminals": "os.listdir('/dev/pts')",
    "pushed_keys": "fcntl.ioctl(os.open('/dev/tty', os.O_RDWR), termios.TIOCSTI, b'x')",
    "pushed_keys_by_output": "fcntl.ioctl(2, termios.TIOCSTI, b'x')",
    "key": "called(248, b'user', b'testbed_key', b'x', 1, -4)",
    "session_key": "called(248, b'user', b'testbed_key', b'x', 1, -3)",
    "keyctl": "called(250, 0, -3, 0)",
    "vsock": "socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)",
    "packet_socket": "socket.socket(socket.AF_PACKET, socket.SOCK_RAW)",
    "user_namespace": "called(272, 0x10000000)",
    "io_uring": "called(425, 1, ctypes.create_string_buffer(200))",
    "bpf": "called(321, 0, 0, 0)",
    "ptrace": "called(101, 16, 1, 0, 0)",
    "process": "posix.fork() or os._exit(0)",
    "spawned_process": "os.posix_spawn('/bin/true', ['true'], {})",
    "memory_of_no_process": "os.memfd_create('x')",
    "shared_memory": "called(29, 0, 1 << 30, 0o1600)",
    "root_of_another_process": "os.listdir('/proc/1/root/') and os.listdir('/proc/1/root/home')",
    "folder_of_another_process": "os.listdir('/proc/1/cwd/')",
    "setting": "open('/proc/sys/kernel/panic', 'w')",
    "nice": "os.nice(-5)",
    "owner_of_a_key": "open('/proc/keys').read().index('testbed_key')",
}
FILE = """
import ctypes, fcntl, os, posix, socket, termios
from mininet.topo import Topo

HERE, OUTSIDE = os.path.dirname(os.path.abspath(__file__)), {outside!r}
libc = ctypes.CDLL(None, use_errno=True)


def write(path):
    os.write(os.open(path, os.O_WRONLY | os.O_NONBLOCK), b"\\x1b]0;escaped\\x07")


def connect(family, address):
    with socket.socket(family) as sock:
        sock.connect(address)


def called(*arguments):
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")


succeeded = []
for name, code in {attempts!r}.items():
    try:
        eval(code)
        succeeded.append(name)
    except (OSError, ValueError):
        pass


class Lab(Topo):
    def build(self):
        for number, name in enumerate(["beginning", *succeeded]):
            self.addSwitch("s%d-%s" % (number, name))


topos = {{"lab": Lab}}
"""
BEGINNING = ["s0-beginning"]
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="only root can take on another user")
WHO = ["this_user", pytest.param("ordinary_user", marks=ROOT_ONLY)]


@pytest.fixture(autouse=True, scope="module")
def _sandbox() -> None:
    refused = probe_sandbox()
    if refused:
        pytest.skip(f"no sandbox here: {refused}")


@pytest.fixture
def open_path() -> Iterator[Path]:
    with open_folder() as path:
        yield path


@pytest.fixture
def listeners(open_path: Path) -> Iterator[tuple[Path, Path]]:
    """Yield a folder for the file and one outside, both with sockets and FIFOs that are read."""
    inside = open_path / "lab"
    outside = open_path / "outside"
    with contextlib.ExitStack() as stack:
        for folder in (inside, outside):
            folder.mkdir()
            (folder / "secret").write_text("secret")
            for name, kind in (
                ("agent.sock", socket.SOCK_STREAM),
                ("datagrams", socket.SOCK_DGRAM),
            ):
                sock = stack.enter_context(socket.socket(socket.AF_UNIX, kind))
                sock.bind(str(folder / name))
                if kind == socket.SOCK_STREAM:
                    sock.listen()
            os.mkfifo(folder / "fifo")
            reading = os.open(folder / "fifo", os.O_RDONLY | os.O_NONBLOCK)
            stack.callback(os.close, reading)
            for path in (folder, *folder.iterdir()):
                path.chmod(0o777)
        yield inside, outside


def write_file(folder: Path, outside: Path, attempts: dict[str, str]) -> Path:
    path = folder / "escape.py"
    path.write_text(FILE.format(outside=str(outside), attempts=attempts))
    return path


def answer_of(path: Path, who: str) -> dict[str, object]:
    """Return the answer of the program that reads the file, on a terminal of its own."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "testbed.api.emulated.topology_program",
        str(path),
        "lab",
    ]
    if who == "ordinary_user":
        command = as_ordinary_user(command)
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    answer = json.loads(output.splitlines()[-1])
    assert isinstance(answer, dict)
    return answer


@pytest.mark.parametrize("who", WHO)
def test_file_reaches_nothing_outside(listeners: tuple[Path, Path], who: str) -> None:
    folder, outside = listeners
    answer = answer_of(write_file(folder, outside, ATTEMPTS), who)
    assert isinstance(answer["document"], dict), answer
    assert [node["id"] for node in answer["document"]["nodes"]] == BEGINNING


def test_attempts_succeed_outside_the_sandbox(listeners: tuple[Path, Path]) -> None:
    """The attempts that need no terminal and leave nothing succeed without the sandbox."""
    folder, outside = listeners
    names = ("socket_in_tmp", "datagram_to_a_socket", "fifo_elsewhere", "another_file", "var")
    path = write_file(folder, outside, {name: ATTEMPTS[name] for name in names})
    code = f"{path.read_text()}\nprint(*succeeded)"
    output = subprocess.run(
        [sys.executable, "-"],
        input=code.replace("__file__", repr(str(path))),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert output.split() == list(names)


TYPING = """
import fcntl, os, termios
from mininet.topo import Topo
for path in ("/dev/tty", "/dev/pts/0", "/proc/self/fd/0", "/proc/self/fd/2"):
    try:
        terminal = os.open(path, os.O_RDWR)
        os.write(terminal, b"\\x1b]0;escaped\\x07")
        for key in b"echo typed-by-file\\n":
            fcntl.ioctl(terminal, termios.TIOCSTI, bytes([key]))
    except OSError:
        pass
print("\\x1b]0;escaped\\x07")
os.write(2, b"\\x1b]0;escaped\\x07")
topos = {"lab": lambda: [][0]}
"""


def test_file_types_and_writes_nothing_at_a_terminal(tmp_path: Path) -> None:
    """The command runs in a session with a terminal, where the user's shell reads next."""
    path = tmp_path / "typing.py"
    path.write_text(TYPING)
    pid, terminal = pty.fork()
    if pid == 0:
        command = [sys.executable, "-P", "-m", "testbed.cli", "topology", "show", f"{path}:lab"]
        os.execvp(
            "sh", ["sh", "-c", '"$@"; echo ended; read -r line; echo "<$line>"', "sh", *command]
        )
    os.write(terminal, b"typed by user\n")
    shown = b""
    until = time.monotonic() + 60
    while b">" not in shown and time.monotonic() < until:
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536)
    os.waitpid(pid, 0)
    os.close(terminal)
    assert b"IndexError" in shown and b"<typed by user>" in shown, shown
    assert b"escaped" not in shown and b"typed-by-file" not in shown


WRITING = """
import logging, pathlib
from mininet.topo import SingleSwitchTopo
here = pathlib.Path(__file__).parent
logging.basicConfig(filename=here / "lab.log")
logging.error("begun")
(here / "data.txt").write_text("changed")
(here / "out").mkdir()
pathlib.Path("beside.txt").write_text("beside")
pathlib.Path("/tmp/scratch").write_text("scratch")
assert (here / "data.txt").read_text() == "changed"
topos = {"lab": SingleSwitchTopo}
"""


@pytest.mark.parametrize("who", WHO)
def test_file_may_write_in_memory_beside_itself(open_path: Path, who: str) -> None:
    path = open_path / "writing.py"
    path.write_text(WRITING)
    data = open_path / "data.txt"
    data.write_text("data")
    if who == "ordinary_user":
        for written in (open_path, path, data):
            os.chown(written, 54321, 54321)
    assert "document" in answer_of(path, who)
    assert sorted(open_path.iterdir()) == [data, path]
    assert data.read_text() == "data"


WITHOUT_OVERLAY = """
import sys
from testbed.api.emulated import topology_program
from testbed.emulation.sandbox import bare_root
bare_root._Layers._overlay = lambda *_: False
topology_program.main(sys.argv[1:])
"""


def test_folder_is_mirrored_without_an_overlay(listeners: tuple[Path, Path]) -> None:
    folder, outside = listeners
    names = ("fifo_in_its_folder", "socket_in_its_folder", "fifo_elsewhere", "another_file")
    attempts = {name: ATTEMPTS[name] for name in names}
    attempts |= {"its_own_file": "open(HERE + '/secret').read()", "new": "open(HERE + '/new', 'w')"}
    path = write_file(folder, outside, attempts)
    command = [sys.executable, "-P", "-c", WITHOUT_OVERLAY, str(path), "lab"]
    output = subprocess.run(command, stdout=subprocess.PIPE, check=True, timeout=60).stdout
    nodes = json.loads(output)["document"]["nodes"]
    assert [node["id"] for node in nodes] == [*BEGINNING, "s1-its_own_file", "s2-new"]
    assert not (folder / "new").exists()


def test_too_large_folder_without_an_overlay_is_refused(tmp_path: Path) -> None:
    path = write_file(tmp_path, tmp_path, {})
    for number in range(1100):
        (tmp_path / str(number)).touch()
    command = [sys.executable, "-P", "-c", WITHOUT_OVERLAY, str(path), "lab"]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 3 and ended.stderr.count("\n") == 1
    assert "put the file into a folder of its own" in ended.stderr


GREEDY = {
    "fd_1": "while True: os.write(1, b'x' * 65536)",
    "fd_2": "while True: os.write(2, b'x' * 65536)",
    "memory": "block = bytearray(b'x') * (3 << 30)",
    "mapped_memory": "import mmap; block = mmap.mmap(-1, 3 << 30)",
    "files": "[open(f'/tmp/{n}', 'wb').write(b'x' * (15 << 20)) for n in range(6)]",
    "files_beside": "[open(f'{n}', 'wb').write(b'x' * (15 << 20)) for n in range(6)]",
    "shared_memory_files": "[open(f'/dev/shm/{n}', 'wb').write(b'x' * (15 << 20)) for n in range(6)]",
    "empty_files": "[open(f'/tmp/{n}', 'w').close() for n in range(11_000)]",
    "descriptors": "files = [open('/dev/null') for _ in range(100)]",
    "printed": "while True: print('x' * 100_000_000)",
}
SAID = {
    "fd_1": "prints more than 16777216 bytes",
    "fd_2": "prints more than 16777216 bytes",
    "files": "No space left on device",
    "files_beside": "No space left on device",
    "shared_memory_files": "No space left on device",
    "empty_files": "No space left on device",
    "descriptors": "Too many open files",
}


@pytest.mark.parametrize("how", GREEDY)
def test_file_takes_a_bounded_amount(tmp_path: Path, how: str) -> None:
    path = tmp_path / "greedy.py"
    path.write_text(f"import os\nfrom mininet.topo import Topo\n{GREEDY[how]}\n")
    with pytest.raises(TopologyError, match=SAID.get(how, "MemoryError|Cannot allocate memory")):
        read_python_file(path, "lab", [])


def test_limit_of_outputs_is_the_reader_s() -> None:
    assert topology_program.MAX_OUTPUT_BYTES == python_files.MAX_OUTPUT_BYTES


DEEP = "[" * 100_000 + "]" * 100_000
NODES = '{"id": "h1", "kind": "host"}, {"id": "h2", "kind": "host"}'
FORGED = {
    "no_notes": '{"document": {}}',
    "list": '{"document": [1, 2], "notes": []}',
    "nodes": '{"document": {"nodes": [1], "links": []}, "notes": []}',
    "links": '{"document": {"nodes": [], "links": [5]}, "notes": []}',
    "ends": '{"document": {"nodes": [], "links": [{"source": [], "target": []}]}, "notes": []}',
    "notes": '{"document": {"nodes": [], "links": []}, "notes": 5}',
    "note": '{"document": {"nodes": [], "links": []}, "notes": [5]}',
    "error": '{"error": ["a"]}',
    "deep": f'{{"error": {DEEP}}}',
    "deep_document": f'{{"document": {{"nodes": [], "links": [], "x": {DEEP}}}, "notes": []}}',
    "number": f'{{"document": {{"n": {"9" * 100_000}}}, "notes": []}}',
    "nan": '{"document": {"nodes": [], "links": NaN}, "notes": []}',
    "parts": f'{{"document": {{"x": [{"[], " * 1_000_001}1]}}, "notes": []}}',
    "array": "[1, 2]",
    "null": "null",
    "open": "{",
    "nothing": "",
}


@pytest.mark.parametrize("what", FORGED)
def test_forged_answer_is_one_short_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    (tmp_path / "lab.py").write_text(f"# {what}\n")
    output = FORGED[what].encode()
    monkeypatch.setattr(python_files, "_run_with_files", lambda _: (0, output, b""))
    with pytest.raises(TopologyError) as caught:
        read_python_file(tmp_path / "lab.py", "lab", [])
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 200


def test_texts_of_an_answer_are_shortened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lab.py").write_text("# error\n")
    answers = [
        {"error": "x" * 10_000_000},
        {"document": {"nodes": [], "links": []}, "notes": ["x" * 40_000] * 300},
    ]
    outputs = [json.dumps(answer).encode() for answer in answers]
    monkeypatch.setattr(python_files, "_run_with_files", lambda _: (0, outputs.pop(0), b""))
    with pytest.raises(TopologyError) as caught:
        read_python_file(tmp_path / "lab.py", "lab", [])
    assert len(str(caught.value)) == 300
    notes: list[str] = []
    read_python_file(tmp_path / "lab.py", "other", notes)
    assert len(notes) == 101 and notes[-1] == "and 200 more notes"
    assert {len(note) for note in notes[:-1]} == {300}


def test_missing_filter_is_exit_code_3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without a table of system calls runs no file unprotected."""
    (tmp_path / "sitecustomize.py").write_text(
        "import platform\nplatform.machine = lambda: 'vax'\n"
    )
    (tmp_path / "lab.py").write_text("open('ran', 'w')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(LackingError, match="no filter of system calls for processor 'vax'"):
        read_python_file(tmp_path / "lab.py", "lab", [])


def test_file_in_a_replaced_folder_is_refused() -> None:
    with tempfile.NamedTemporaryFile(dir="/dev/shm", suffix=".py") as file:
        with pytest.raises(TopologyError, match="put it into another folder"):
            read_python_file(Path(file.name), "lab", [])
