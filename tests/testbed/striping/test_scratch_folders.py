"""The folder of a run's subfiles goes with the run; that of a killed one goes when the next begins, and no other."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.errors import InputError
from testbed.striping.emulated.scratch_folders import scratch_folder

HOLD = """
import sys
from pathlib import Path
from testbed.striping.emulated.scratch_folders import scratch_folder
with scratch_folder(Path(sys.argv[1])) as root:
    (root / "r0").mkdir()
    (root / "r0" / "data").write_bytes(bytes(1000))
    print(root, flush=True)
    sys.stdin.read()
"""


def start(parent: Path) -> tuple[subprocess.Popen[str], Path]:
    words = [sys.executable, "-c", HOLD, str(parent)]
    heard = [
        "env",
        "--default-signal=HUP",
        *words,
    ]  # also where the tests themselves ignore it, as of nohup
    process = subprocess.Popen(heard, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def age(folder: Path) -> None:
    """Make it look as if nothing had been put into it for an hour."""
    now_s = folder.stat().st_mtime
    os.utime(folder, (now_s - 3600, now_s - 3600))


def test_a_killed_run_leaves_a_folder_that_the_next_one_removes(tmp_path: Path) -> None:
    killed, left = start(tmp_path)
    alive, used = start(tmp_path)
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (left / "r0" / "data").exists()
        age(left)
        age(used)
        with scratch_folder(tmp_path) as root:
            assert not left.exists(), "nobody has it any more"
            assert (used / "r0" / "data").exists(), "another process is at work in it"
            assert root.is_dir()
        assert not root.exists()
    finally:
        alive.communicate("")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_terminated_run_leaves_no_folder(number: signal.Signals, tmp_path: Path) -> None:
    process, folder = start(tmp_path)
    assert (folder / "r0" / "data").exists()
    while process.poll() is None:  # a signal that comes just before it waits is heard with the next
        process.send_signal(number)
        time.sleep(0.5)
    assert process.returncode == 128 + number and not folder.exists()


def test_a_folder_that_was_just_made_and_other_names_stay(tmp_path: Path) -> None:
    young, other = tmp_path / ".subfiles-young", tmp_path / "subfiles"
    for folder in (young, other):
        folder.mkdir()
    age(other)
    with scratch_folder(tmp_path):
        assert young.exists() and other.exists()


def test_a_folder_in_which_nothing_can_be_made_is_an_input_error() -> None:
    with (
        pytest.raises(
            InputError, match=r"--results /proc: .*; choose a directory that can be written"
        ),
        scratch_folder(Path("/proc")),
    ):
        pass
