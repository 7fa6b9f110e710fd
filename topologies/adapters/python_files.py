"""NETWORK ``FILE.py:NAME``: the network that a Mininet file builds.

The file is a program. It is run because it was named, never because it was found, and only in the sandbox that the
testbed makes for it; this package alone reads none.
"""

import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from topologies.errors import LackingError, TopologyError
from topologies.text.json_types import JsonObject

_PROGRAM = "testbed.api.emulated.topology_program"
"""Makes the sandbox. By its name: nothing of the testbed is imported here."""
TIME_LIMIT_S = 30.0
_MAX_FILE_BYTES, _SAID = 2**20, 300
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
    """What the program in the sandbox says of the file."""
    command = [sys.executable, "-P", "-m", _PROGRAM, path, name]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise TopologyError(
            f"it has built no network after {TIME_LIMIT_S:g} s; does it wait for something, or loop?"
        ) from None
    with suppress(ValueError, IndexError):
        said = json.loads(done.stdout.splitlines()[-1])
        if isinstance(said, dict) and {"document", "error"} & said.keys():
            return said
    if b"No module named 'mininet'" in done.stderr:
        raise LackingError(
            "Mininet is missing, which a Mininet file needs; install the testbed's extra emulation"
        )
    last = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])
    if done.returncode == _REFUSED and last.startswith(_REFUSAL):
        raise LackingError(f"no sandbox to run it in: {last.removeprefix(_REFUSAL)}"[:_SAID])
    reason = last[:_SAID]
    raise TopologyError(
        f"it ended without a network (exit {done.returncode}{': ' + reason if reason else ''})"
    )


def _suggested(path: Path) -> str:
    """What NAME may be, as far as the text of the file says; it is not run."""
    text = path.read_text(errors="replace")
    listed = _TOPOS.search(text)
    names = _KEY.findall(listed[1] if listed else "") + _TOPO_CLASS.findall(text)
    names += [found[1] for found in _FUNCTION.finditer(text) if "Mininet(" in found[0]]
    return " or :".join(names[:4]) or "__main__"
