"""NETWORK ``FILE.py:NAME``: the network that a Mininet file builds.

The file is a program. It is run because it was named, never because it was found, and only in the sandbox that the
testbed makes for it; this package alone reads none.
"""

import ast
import json
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any

from topologies.errors import TopologyError

_PROGRAM = "testbed.api.emulated.topology_program"
"""Makes the sandbox. By its name: nothing of the testbed is imported here."""
TIME_LIMIT_S = 30.0
_MAX_FILE_BYTES, _SAID = 2**20, 300


def read_python_file(path: Path, name: str, notes: list[str]) -> Any:
    """The node-link document of what NAME builds in the file; what is not taken over is added to ``notes``.

    NAME: an entry of ``topos``, a Topo class, a function that makes a network, or ``__main__``, the file as a script;
    values may follow it (``NAME,4,bw=10``). Raises TopologyError, in one line, where it builds none, takes longer than
    TIME_LIMIT_S, or there is no sandbox to run it in.
    """
    if not name:
        raise TopologyError(
            f"a Python file is a program: say what it is to build, as {path.name}:{_suggested(path)}; it is then run in"
            " the sandbox"
        )
    found = path.stat()
    if found.st_size > _MAX_FILE_BYTES:
        raise TopologyError(f"it is longer than {_MAX_FILE_BYTES} bytes; make it smaller")
    said = _run(str(path.resolve()), name, found.st_mtime_ns, found.st_size)
    if "error" in said:
        raise TopologyError(str(said["error"]))
    notes += said["notes"]
    return json.loads(json.dumps(said["document"]))


@lru_cache(maxsize=32)
def _run(path: str, name: str, *_: int) -> dict[str, Any]:
    """What the program in the sandbox says of the file, as long as that does not change."""
    command = [sys.executable, "-P", "-m", _PROGRAM, path, name]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIME_LIMIT_S, check=False)
    except subprocess.TimeoutExpired:
        raise TopologyError(
            f"it has built no network after {TIME_LIMIT_S:g} s; does it wait for something, or loop?"
        ) from None
    try:
        said = json.loads(done.stdout.splitlines()[-1])
        if isinstance(said, dict) and {"document", "error"} & said.keys():
            return said
    except (ValueError, IndexError):
        pass
    if b"No module named 'mininet'" in done.stderr:
        raise TopologyError("Mininet is missing, which a Mininet file needs; install the testbed's extra emulation")
    reason = " ".join(done.stderr.decode(errors="replace").strip().splitlines()[-1:])[:_SAID]
    raise TopologyError(f"it ended without a network (exit {done.returncode}{': ' + reason if reason else ''})")


def _suggested(path: Path) -> str:
    """What NAME may be, as far as the text of the file says; it is not run."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return "NAME"
    names = [
        key.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Dict)
        and "topos" in map(ast.unparse, node.targets)
        for key in node.value.keys
        if isinstance(key, ast.Constant) and isinstance(key.value, str)
    ]  # fmt: skip
    names += [
        node.name
        for node in tree.body
        if isinstance(node, ast.ClassDef) and any("Topo" in ast.unparse(base) for base in node.bases)
    ]
    names += [node.name for node in tree.body if isinstance(node, ast.FunctionDef) and "Mininet(" in ast.unparse(node)]
    return " or :".join(names[:4]) or "__main__"
