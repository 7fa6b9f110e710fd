"""Commands run as a user without rights, tshark among them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.helpers.compiled_code import hand_over_compiled_code
from tests.helpers.paths import ROOT


def as_ordinary_user(words: list[str], compiled: Path | None = None) -> list[str]:
    """Run as a user without rights, who may open /dev/net/tun as distributions let him; the machine stays as it is.

    Where Python or the project lie in a closed directory (/root), a copy of the path that is open hides it.
    ``compiled``: a folder of compiled code, of which he gets a copy.
    """
    steps = [
        "mount -t tmpfs none /mnt",
        "mknod -m 666 /mnt/tun c 10 200",
        "mount --bind /mnt/tun /dev/net/tun",
    ]
    steps += ["mkdir -m 777 /mnt/home"]
    own = "HOME=/mnt/home"
    if compiled is not None:
        steps += [f"cp -pr {compiled} /mnt/compiled && chmod -R a+rwX /mnt/compiled"]
        own += " NUMBA_CACHE_DIR=/mnt/compiled"
    needed = sorted({str(ROOT), sys.prefix, sys.base_prefix})
    closed = {
        d
        for path in needed
        for d in map(str, Path(path).parents)
        if not Path(d).stat().st_mode & 0o001
    }
    hidden = [path for path in needed if closed & set(map(str, Path(path).parents))]
    steps += [f"mkdir /mnt/{n} && mount --bind {path} /mnt/{n}" for n, path in enumerate(hidden)]
    steps += [f"mount -t tmpfs -o mode=755 none {d}" for d in sorted(closed)]
    steps += [f"mkdir -p {path} && mount --bind /mnt/{n} {path}" for n, path in enumerate(hidden)]
    drop = f"setpriv --reuid 54321 --regid 54321 --clear-groups --inh-caps=-all --bounding-set=-all env {own}"
    return [
        "unshare",
        "-m",
        "sh",
        "-c",
        " && ".join([*steps, f'cd {ROOT} && exec {drop} "$@"']),
        "sh",
        *words,
    ]


@contextmanager
def open_folder() -> Iterator[Path]:
    """Yield a temporary folder that every user reaches, unlike pytest's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder)
        path.chmod(0o755)
        yield path


def ordinary(words: list[str], compiled: Path) -> list[str]:
    """The command as a user without rights, who has what is compiled; skips, with the reason, where this machine cannot
    start one."""
    hand_over_compiled_code(ROOT, compiled)
    if os.geteuid() != 0:
        return ["env", f"NUMBA_CACHE_DIR={compiled}", *words]
    missing = next((name for name in ("setpriv", "unshare") if shutil.which(name) is None), None)
    if missing is not None:
        pytest.skip(f"{missing} is missing (util-linux): no other user can be taken on")
    found = as_ordinary_user(words, compiled)
    started = subprocess.run(
        [*found[: -len(words)], "id", "-u"], capture_output=True, text=True, timeout=60, check=False
    )
    if started.returncode != 0 or started.stdout.strip() == "0":
        pytest.skip(
            f"no command can be started as another user here: {started.stderr.strip()[-200:]}"
        )
    return found


def run_dissector(dissector: Path, file: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """tshark's JSON of a capture by a dissector in Lua, which tshark 4.4 does not load as root."""
    words = (
        "tshark",
        "-X",
        f"lua_script:{dissector}",
        "-r",
        "-",
        "-T",
        "json",
        "-Y",
        "testbed_stream",
        *words,
    )
    who = as_ordinary_user([*words]) if os.geteuid() == 0 else words
    with file.open("rb") as packets:
        return subprocess.run(
            who, stdin=packets, capture_output=True, text=True, timeout=120, check=False
        )
