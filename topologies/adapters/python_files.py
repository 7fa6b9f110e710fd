"""Reads the network ``FILE.py:NAME`` that a Mininet file builds.

The file is a program. It is run only if the user has named it, and only in a sandbox. The sandbox
is part of the testbed, without which this package cannot read such files.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

from topologies.errors import LackingError, TopologyError
from topologies.text.json_types import JsonObject

# The program that runs the file in a sandbox. It is started by its name, because this package must
# not import the testbed.
_PROGRAM = "testbed.api.emulated.topology_program"
TIME_LIMIT_S = 30.0
_MAX_FILE_BYTES = 2**20
# The program limits its output to this size; the output is kept in memory.
MAX_OUTPUT_BYTES = 16 << 20
# Maximum number of lists, or of objects, in an answer.
_MAX_PARTS = 1_000_000
# Maximum number of characters of an error or a note, and of notes.
_MAX_TEXT = 300
_MAX_NOTES = 100
# Folders that the sandbox replaces by its own.
_HIDDEN = ("/dev/", "/proc/", "/sys/")
_FORGED = "its answer describes no network; does the file print it itself, or end the program?"
# The environment variable with the file descriptor of the answers, and the name of its memory file.
_HANDOVER_VARIABLE = "TESTBED_FILES_READ"
_HANDOVER_FILE = "testbed-files-read"
# The exit code of the program if there is no sandbox, and the beginning of its message.
_NO_SANDBOX = 3
_MESSAGE_PREFIX = "testbed: "
_TOPOS = re.compile(r"^topos\b[^={]*=\s*\{(.*?)\}", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"""["']([^"']+)["']\s*:""")
_TOPO_CLASS = re.compile(r"^class\s+(\w+)\s*\([^)]*Topo\b", re.MULTILINE)
_FUNCTION = re.compile(r"^def\s+(\w+)\s*\(.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
# The answers of the program, by the path, the name, the time of change and the size of each file.
_answers: dict[str, JsonObject] = {}


def read_python_file(path: Path, name: str, notes: list[str]) -> JsonObject:
    """Run a Mininet file in a sandbox, and return the node-link document of its network.

    Args:
        path: The file.
        name: What to build: an entry of ``topos``, a Topo class, a function that builds a network,
            or ``__main__`` for the file as a script. Values may follow, as ``NAME,4,bw=10``.
        notes: The list to which notes about parts that are not read are appended.

    Raises:
        TopologyError: The file builds no network, or takes longer than TIME_LIMIT_S.
        LackingError: There is no sandbox to run it in, or Mininet is not installed.
    """
    if not name:
        raise TopologyError(
            "a Python file is a program: say what it is to build, as"
            f" {path.name}:{_suggested_names(path)}; it is then run in the sandbox"
        )
    status = path.stat()
    if status.st_size > _MAX_FILE_BYTES:
        raise TopologyError(f"it is longer than {_MAX_FILE_BYTES} bytes; make it smaller")
    folder = str(path.resolve().parent)
    if folder == "/" or f"{folder}/".startswith(_HIDDEN):
        raise TopologyError(f"no Python file is run from {folder}; put it into another folder")
    _take_over()
    key = json.dumps([str(path.resolve()), name, status.st_mtime_ns, status.st_size])
    if key not in _answers:
        _answers[key] = _run(str(path.resolve()), name)
    answer = _answers[key]
    if "error" in answer:
        raise TopologyError(str(answer["error"]))
    notes += answer["notes"]
    # A copy, because the caller may change it.
    return dict(json.loads(json.dumps(answer["document"])))


def hand_over() -> None:
    """Store all answers in a memory file for the program that replaces this one (exec).

    That program then need not run the same files a second time.
    """
    if _answers:
        # Without O_CLOEXEC, so that the descriptor stays open.
        descriptor = os.memfd_create(_HANDOVER_FILE, 0)
        with open(descriptor, "w", closefd=False) as file:
            json.dump(_answers, file)
        os.environ[_HANDOVER_VARIABLE] = str(descriptor)


def _take_over() -> None:
    """Read the answers that the program before this one has stored, if there are any."""
    descriptor = os.environ.pop(_HANDOVER_VARIABLE, "")
    if not descriptor:
        return
    # A child process may have inherited the variable while the descriptor is that of another file.
    link = Path("/proc/self/fd", descriptor)
    if link.is_symlink() and _HANDOVER_FILE in str(link.readlink()):
        with open(int(descriptor)) as file:
            file.seek(0)
            _answers.update(json.load(file))


def _run(path: str, name: str) -> JsonObject:
    """Start the program that runs a file in a sandbox, and return its answer.

    Args:
        path: The file.
        name: What to build, as for ``read_python_file``.

    Returns:
        An object with ``error``, or with ``document`` and ``notes``.
    """
    command = [sys.executable, "-P", "-m", _PROGRAM, path, name]
    exit_code, output, messages = _run_with_files(command)
    if max(len(output), len(messages)) >= MAX_OUTPUT_BYTES:
        raise TopologyError(f"it prints more than {MAX_OUTPUT_BYTES} bytes; print less")
    answer = _parse_answer(output.splitlines()[-1:])
    if answer is not None:
        return answer
    if b"No module named 'mininet'" in messages:
        raise LackingError(
            "Mininet is missing, which a Mininet file needs; install the testbed's extra emulation"
        )
    last_line = " ".join(messages.decode(errors="replace").strip().splitlines()[-1:])
    if exit_code == _NO_SANDBOX and last_line.startswith(_MESSAGE_PREFIX):
        reason = last_line.removeprefix(_MESSAGE_PREFIX)[:_MAX_TEXT]
        raise LackingError(f"no sandbox to run it in: {reason}")
    reason = f": {last_line[:_MAX_TEXT]}" if last_line else ""
    raise TopologyError(f"it ended without a network (exit {exit_code}{reason})")


def _run_with_files(command: list[str]) -> tuple[int, bytes, bytes]:
    """Run a program with its outputs in memory files.

    A pipe would have no limit. The program sets a limit on the size of files that it writes.

    Returns:
        The exit code, the standard output and the standard error.
    """
    with ExitStack() as stack:
        stdout = stack.enter_context(open(os.memfd_create("testbed-output"), "w+b"))
        stderr = stack.enter_context(open(os.memfd_create("testbed-messages"), "w+b"))
        try:
            ended = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                timeout=TIME_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise TopologyError(
                f"it has built no network after {TIME_LIMIT_S:g} s; "
                "does it wait for something, or loop?"
            ) from None
        stdout.seek(0)
        stderr.seek(0)
        return ended.returncode, stdout.read(), stderr.read()


def _parse_answer(lines: list[bytes]) -> JsonObject | None:
    """Parse the answer of the program, which the Mininet file may have forged.

    Args:
        lines: The last line of the program's output, or no line.

    Returns:
        None if there is no answer.

    Raises:
        TopologyError: The answer has not the form that the program writes.
    """
    if not lines or lines[0][:1] != b"{":
        return None
    if max(lines[0].count(sign) for sign in (b"[", b"{")) > _MAX_PARTS:
        raise TopologyError(f"more than {_MAX_PARTS} nodes, links and lists; make it smaller")
    try:
        answer = json.loads(lines[0])
    except (ValueError, RecursionError):
        raise TopologyError(_FORGED) from None
    if isinstance(answer.get("error"), str):
        return {"error": answer["error"][:_MAX_TEXT]}
    notes = answer.get("notes")
    document = answer.get("document")
    if not isinstance(notes, list) or not all(isinstance(note, str) for note in notes):
        raise TopologyError(_FORGED)
    if not isinstance(document, dict) or not _has_parts(document):
        raise TopologyError(_FORGED)
    shown = [note[:_MAX_TEXT] for note in notes[:_MAX_NOTES]]
    if len(notes) > _MAX_NOTES:
        shown.append(f"and {len(notes) - _MAX_NOTES} more notes")
    return {"document": document, "notes": shown}


def _has_parts(document: JsonObject) -> bool:
    """Return whether the document has lists of nodes and links, as the program writes them."""
    nodes = document.get("nodes")
    links = document.get("links")
    if not isinstance(nodes, list) or not isinstance(links, list):
        return False
    if not all(isinstance(entry, dict) for entry in (*nodes, *links)):
        return False
    for link in links:
        if not isinstance(link.get("source"), str) or not isinstance(link.get("target"), str):
            return False
    return True


def _suggested_names(path: Path) -> str:
    """Return what the user may give as NAME, judging by the text of the file, which is not run."""
    text = path.read_text(errors="replace")
    topos = _TOPOS.search(text)
    names = _KEY.findall(topos[1]) if topos else []
    names += _TOPO_CLASS.findall(text)
    for function in _FUNCTION.finditer(text):
        if "Mininet(" in function[0]:
            names.append(function[1])
    return " or :".join(names[:4]) or "__main__"
