"""Commands as calls: where the process itself is not what is tested, its start (a second of processor time) is
saved."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from testbed.cli import main


def in_process(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """What ``testbed WORDS`` does in the folder ``cwd``, called in this process: its exit code and what it printed."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(list(words))
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
