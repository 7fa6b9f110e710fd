"""Commands as calls: where the process itself is not what is tested, its start (a second of processor time) is
saved."""

from __future__ import annotations

import contextlib
import io
import subprocess
from pathlib import Path

from testbed.cli import main


def in_process(*words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """Run ``testbed WORDS`` in this process, and return its exit code and output.

    Args:
        words: The arguments of the command.
        cwd: The current directory of the command.
    """
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = main(list(words))
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())
