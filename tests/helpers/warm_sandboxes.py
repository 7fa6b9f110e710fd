"""Calls inside sandboxes of their own that need not import: each in a fork of a process that has imported what takes
long."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

_PROGRAM = """
import atexit, gc, importlib.util, json, os, sys, tempfile, threading, traceback
import networkx, numpy, pytest, scipy.optimize
import testbed.bulk.emulated.machine_ends, testbed.stream.emulated.fabric, testbed.striping.emulated.program_run
from fec.redundancy.worst_windows import WorstWindows
from testbed.emulation.sandbox import sandbox_entry
from testbed.errors import InvalidRunError

def call(*_):  # in the sandbox, in place of a program
    os.execvp, tempfile.tempdir, code = execvp, None, 1
    spec = importlib.util.spec_from_file_location("sandboxed_test", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
        print("\\nRESULT " + json.dumps(getattr(module, name)(*arguments)))
        code = 0
    except InvalidRunError as error:
        print(error, "INVALID", sep="\\n", file=sys.stderr)
    except BaseException:
        traceback.print_exc()
    threading._shutdown()  # as at an interpreter's end, but that nothing is freed piece by piece
    atexit._run_exitfuncs()
    sys.stdout.flush()
    os._exit(code)

sandbox_entry._die_with_parent()
WorstWindows([[(0, 8192)]], 20).sizes(40503)  # compiled code: what numba loads when the first of it is called
execvp = os.execvp
gc.freeze()
for line in open(os.dup(0)):
    (path, name, arguments), files, folder, environment = json.loads(line)
    child = os.fork()
    if child == 0:
        for number, file in enumerate(files):
            os.dup2(os.open(file, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if number else 0), 0o600), number)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        os.execvp = call
        code = sandbox_entry.main(['{"die_with_parent": true}', name])
        os._exit(code)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class WarmSandboxes:
    """``sandboxes(function, arguments, timeout_s)``: call a function of a module in a sandbox. Its result, as JSON, is
    the last line of stdout, after ``RESULT``; an InvalidRunError's text is in stderr, with INVALID on the next line."""

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(
        self, function: Callable[..., Any], arguments: tuple[Any, ...], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Raises subprocess.TimeoutExpired; nothing is left then either."""
        assert self._process.stdin is not None and self._process.stdout is not None
        files = [self._scratch / name for name in ("stdout", "stderr")]
        words = (function.__code__.co_filename, function.__name__, arguments)
        streams = [os.devnull, *map(str, files)]
        self._process.stdin.write(json.dumps([words, streams, os.getcwd(), dict(os.environ)]) + "\n")  # noqa: PTH109
        self._process.stdin.flush()
        child = int(self._process.stdout.readline())
        late = not select.select([self._process.stdout], [], [], timeout_s)[0]
        if late:
            os.kill(child, signal.SIGKILL)
        code = int(self._process.stdout.readline())
        if late:
            raise subprocess.TimeoutExpired(function.__name__, timeout_s)
        return subprocess.CompletedProcess(words, code, *(file.read_text() for file in files))

    def close(self) -> None:
        """No call can be made any more."""
        with self._process:
            self._process.communicate()
