"""Clocks of their own for programs on one machine: the kernel adds seconds to the monotonic clock of a namespace (Linux
5.6 and newer)."""

import subprocess
import sys
import time

_LIMIT_S = 10.0
_SHOW = "import time; print(time.monotonic_ns())"


def time_namespace(offset_s: int) -> list[str]:
    """The words in front of a command that give it clocks so many seconds ahead; it ends with them.

    >>> time_namespace(5)[-2:]
    ['--fork', '--kill-child']
    """
    times = ["--time", "--monotonic", str(offset_s), "--boottime", str(offset_s)]
    return ["unshare", "--user", "--map-root-user", *times, "--fork", "--kill-child"]


def time_namespace_obstacle() -> str | None:
    """None where a program can have a monotonic clock that is ahead, else what the kernel said."""
    offset_s = 1234
    before_ns = time.monotonic_ns()
    try:
        words = [*time_namespace(offset_s), sys.executable, "-I", "-S", "-c", _SHOW]
        done = subprocess.run(words, capture_output=True, text=True, timeout=_LIMIT_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"no time namespace: {error}"
    if done.returncode != 0:
        return f"no time namespace: {(done.stderr.strip().splitlines() or ['refused'])[-1]}"
    # Three readings in their order: exact, however long the program took to start.
    if before_ns <= int(done.stdout) - offset_s * 10**9 <= time.monotonic_ns():
        return None
    return f"a time namespace was made, but its clock is not {offset_s} s ahead"
