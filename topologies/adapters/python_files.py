"""NETWORK ``FILE.py:NAME``: the network that a Mininet file builds.

The file is a program. It is run because it was named, never because it was found, and only in the sandbox that the
testbed makes for it; this package alone reads none.
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

_PROGRAM = "testbed.api.emulated.topology_program"
"""Makes the sandbox. By its name: nothing of the testbed is imported here."""
TIME_LIMIT_S = 30.0
_MAX_FILE_BYTES = 2**20
# A limit of the program's; what it prints is kept in memory.
MAX_OUTPUT_BYTES = 16 << 20
# Lists, or objects, of an answer.
_MAX_PARTS = 1_000_000
# Characters of an error or a note, and the number of notes.
_MAX_TEXT = 300
_MAX_NOTES = 100
# Folders that the sandbox replaces by its own.
_HIDDEN = ("/dev/", "/proc/", "/sys/")
_FORGED = "its answer describes no network; does the file print it itself, or end the program?"
_HANDED, _MEMORY = "TESTBED_FILES_READ", "testbed-files-read"
_REFUSED, _REFUSAL = 3, "testbed: "
"""How a program ends that finds no sandbox, and how what it says begins."""
_TOPOS = re.compile(r"^topos\b[^={]*=\s*\{(.*?)\}", re.MULTILINE | re.DOTALL)
_KEY = re.compile(r"""["']([^"']+)["']\s*:""")
_TOPO_CLASS = re.compile(r"^class\s+(\w+)\s*\([^)]*Topo\b", re.MULTILINE)
_FUNCTION = re.compile(r"^def\s+(\w+)\s*\(.*?(?=^\S|\Z)", re.MULTILINE | re.DOTALL)
_known: dict[str, JsonObject] = {}
"""What programs said of files, by place, name and state of each."""


def read_python_file(path: Path, name: str, notes: list[str]) -> JsonObject:
    """The node-link document of what NAME builds in the file; what is not taken over is added to ``notes``.

    NAME: an entry of ``topos``, a Topo class, a function that makes a network, or ``__main__``, the file as a script;
    values may follow it (``NAME,4,bw=10``). Raises TopologyError, in one line, where it builds none or takes longer
    than TIME_LIMIT_S; LackingError where there is no sandbox to run it in, or no Mininet.
    """
    if not name:
        raise TopologyError(
            f"a Python file is a program: say what it is to build, as {path.name}:{_suggested(path)}; it is then run in"
            " the sandbox"
        )
    found = path.stat()
    if found.st_size > _MAX_FILE_BYTES:
        raise TopologyError(f"it is longer than {_MAX_FILE_BYTES} bytes; make it smaller")
    folder = str(path.resolve().parent)
    if folder == "/" or f"{folder}/".startswith(_HIDDEN):
        raise TopologyError(f"no Python file is run from {folder}; put it into another folder")
    _take_over()
    key = json.dumps([str(path.resolve()), name, found.st_mtime_ns, found.st_size])
    said = _known.get(key) or _run(str(path.resolve()), name)
    _known[key] = said
    if "error" in said:
        raise TopologyError(str(said["error"]))
    notes += said["notes"]
    return dict(json.loads(json.dumps(said["document"])))


def hand_over() -> None:
    """Let the program that takes the place of this one know what was read, so that no file is run a second time."""
    if _known:
        memory = os.memfd_create(_MEMORY, 0)
        with open(memory, "w", closefd=False) as file:
            json.dump(_known, file)
        os.environ[_HANDED] = str(memory)


def _take_over() -> None:
    """What the program before this one handed over; nothing where the descriptor is another's."""
    memory = os.environ.pop(_HANDED, "")
    place = Path("/proc/self/fd", memory)
    if memory and place.is_symlink() and _MEMORY in str(place.readlink()):
        with open(int(memory)) as file:
            file.seek(0)
            _known.update(json.load(file))


def _run(path: str, name: str) -> JsonObject:
    """Run the program that reads the file in a sandbox, and return its answer."""
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
    last = " ".join(messages.decode(errors="replace").strip().splitlines()[-1:])
    if exit_code == _REFUSED and last.startswith(_REFUSAL):
        reason = last.removeprefix(_REFUSAL)[:_MAX_TEXT]
        raise LackingError(f"no sandbox to run it in: {reason}")
    reason = f": {last[:_MAX_TEXT]}" if last else ""
    raise TopologyError(f"it ended without a network (exit {exit_code}{reason})")


def _run_with_files(command: list[str]) -> tuple[int, bytes, bytes]:
    """Run a program whose outputs are files, which a limit of the program's bounds.

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
    """Return the program's answer, which the file may have forged, or None if there is none."""
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
    ends = [(link.get("source"), link.get("target")) for link in links]
    return all(isinstance(source, str) and isinstance(target, str) for source, target in ends)


def _suggested(path: Path) -> str:
    """What NAME may be, as far as the text of the file says; it is not run."""
    text = path.read_text(errors="replace")
    listed = _TOPOS.search(text)
    names = _KEY.findall(listed[1] if listed else "") + _TOPO_CLASS.findall(text)
    names += [found[1] for found in _FUNCTION.finditer(text) if "Mininet(" in found[0]]
    return " or :".join(names[:4]) or "__main__"
