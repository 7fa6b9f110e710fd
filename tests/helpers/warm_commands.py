"""Commands in processes of their own that need not import: each is a fork of one that has imported what takes long."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

_PROGRAM = """
import json, os, sys, traceback
import matplotlib.backends.backend_svg, matplotlib.pyplot, networkx, numba, numpy, scipy.optimize
import testbed.cli, testbed.conformance, testbed.interconnect.compiled.compiled_run
for line in open(os.dup(0)):
    words, files, site = json.loads(line)
    child = os.fork()
    if child == 0:
        code = 70
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for number, file in enumerate(files, 1):
                os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
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
        assert self._process.stdin is not None and self._process.stdout is not None
        files = [self._scratch / name for name in ("stdout", "stderr")]
        site = None if self._site is None else str(self._site)
        self._process.stdin.write(json.dumps([words, [str(file) for file in files], site]) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        return subprocess.CompletedProcess(words, code, *(file.read_text() for file in files))


@contextlib.contextmanager
def warm_commands(folder: Path, scratch: Path, environment: Mapping[str, str]) -> Iterator[WarmCommands]:
    """The process that is forked; ``scratch``: a folder for what the commands print."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=folder,
        env={**os.environ, **environment},
    ) as process:  # fmt: skip
        yield WarmCommands(process, scratch)
        process.communicate()
