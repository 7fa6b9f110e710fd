"""Commands in processes of their own that need not import: each is a fork of one that has imported what takes long."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

_PROGRAM = """
import gc, json, os, sys, traceback
import matplotlib.backends.backend_svg, matplotlib.pyplot, networkx, scipy.optimize, scipy.spatial
import testbed.cli, testbed.conformance, testbed.interconnect.compiled.compiled_run
from fec.redundancy.worst_windows import WorstWindows
WorstWindows([[(0, 8192)]], 20).sizes(40503)  # compiled code: what numba loads when the first of it is called
gc.freeze()
for line in open(os.dup(0)):
    words, files, site = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 70
        try:
            for number, file in enumerate(files):
                os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0), 0o600), number)
            if site is not None:
                os.chdir(site)
                sys.path.insert(0, site)
                os.environ["PYTHONPATH"] = os.pathsep.join([os.environ.get("PYTHONPATH", ""), site])
            sys.argv = ["testbed", *words]
            code = testbed.cli.main()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class WarmCommands:
    """``commands(*words)``: what ``testbed WORDS`` does in a new process, begun in ``folder`` with that environment."""

    def __init__(self, process: subprocess.Popen[str], scratch: Path, site: Path | None = None) -> None:
        self._process, self._scratch, self._site = process, scratch, site

    def at(self, site: Path) -> WarmCommands:
        """The same in that folder, and with the packages that are installed there."""
        return WarmCommands(self._process, self._scratch, site)

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        files = [self._scratch / name for name in ("stdout", "stderr")]
        code = self._run(words, [os.devnull, *map(str, files)])
        return subprocess.CompletedProcess(words, code, *(file.read_text() for file in files))

    def on_a_terminal(self, *words: str) -> tuple[int, bytes]:
        """Exit code with a terminal for stdin, stdout and stderr, and everything that reaches it."""
        ours, theirs = pty.openpty()
        with ThreadPoolExecutor(1) as beside, open(ours, "rb", buffering=0) as terminal:
            reading = beside.submit(_until_closed, terminal)
            code = self._run(words, 3 * [os.ttyname(theirs)])
            os.close(theirs)
            return code, reading.result()

    def _run(self, words: Sequence[str], files: Sequence[str]) -> int:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(json.dumps([words, files, None if self._site is None else str(self._site)]) + "\n")
        self._process.stdin.flush()
        return int(self._process.stdout.readline())


def _until_closed(terminal: io.FileIO) -> bytes:
    found = b""
    with contextlib.suppress(OSError):  # the terminal's other end is gone
        while part := terminal.read(65536):
            found += part
    return found


@contextlib.contextmanager
def warm_commands(folder: Path, scratch: Path, environment: Mapping[str, str]) -> Iterator[WarmCommands]:
    """The process that is forked; ``scratch``: a folder for what the commands print."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,  # a stream made for a file would try to seek on a terminal
        text=True, cwd=folder, env={**os.environ, **environment},
    ) as process:  # fmt: skip
        yield WarmCommands(process, scratch)
        process.communicate()
