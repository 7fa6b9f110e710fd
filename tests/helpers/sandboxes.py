"""A command in a sandbox of its own, from its start to its end: for tests and benchmarks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from testbed.emulation.sandbox.sandbox import sandbox_command


def run_in_sandbox(
    command: Sequence[str] | str,
    *arguments: str,
    timeout_s: float = 60.0,
    input_text: str | None = None,
    environment: Mapping[str, str] | None = None,
    as_user: int | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a command in a sandbox of its own and return what it wrote.

    ``command``: the words of a program; or a text: a Python module, or ``module:function`` (called without arguments),
    with ``arguments`` as its command line. ``as_user``: a user id to run as (root only). Raises
    subprocess.TimeoutExpired after ``timeout_s`` seconds; nothing is left then either.
    """
    words = (
        _python_words(command, arguments) if isinstance(command, str) else [*command, *arguments]
    )
    outer = sandbox_command(words, die_with_parent=True)
    identity: dict[str, Any] = (
        {} if as_user is None else {"user": as_user, "group": as_user, "extra_groups": []}
    )
    return subprocess.run(
        outer,
        input=input_text,
        stdin=subprocess.DEVNULL if input_text is None else None,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        env={**os.environ, **(environment or {})},
        check=False,
        **identity,
    )


def _python_words(target: str, arguments: Sequence[str]) -> list[str]:
    module, colon, function = target.partition(":")
    if not colon:
        return [sys.executable, "-m", module, *arguments]
    call = f"import sys, importlib; sys.exit(importlib.import_module({module!r}).{function}())"
    return [sys.executable, "-c", call, *arguments]
