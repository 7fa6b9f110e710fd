"""A way that dies is told from a disk that is slow: in a network of its own whose only link is taken down."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.paths import ROOT

TIMEOUT_S = 1.5
PROGRAM = f"""
import subprocess, sys, threading, time
from pathlib import Path
from sfio_emu import ListenerLost, StripedFile
from tests.helpers.faulty_disk import Disk
from tests.helpers.listeners import listening, session_of

when, root = sys.argv[1], Path(sys.argv[2])
disk = Disk()
with listening(root, subfiles=disk.subfiles) as addresses:
    file = StripedFile.open("p1/a", 75, session=session_of(addresses, timeout_s={TIMEOUT_S}))
    cut = [0.0]
    def take_down():
        if when != "while it writes":
            disk.entered.wait(5)
        time.sleep(0.3)
        subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
        cut[0] = time.monotonic()
    if when != "while it writes":
        disk.gate.clear()
    threading.Thread(target=take_down).start()
    data = bytes(100 if when == "while it waits for an answer" else 64 << 20)
    try:
        while True:
            file.pwrite(data, 0)
    except ListenerLost as error:
        print(f"{{time.monotonic() - cut[0]:.2f}} {{error}}", flush=True)
    disk.gate.set()
"""


def test_a_dead_way_is_found_within_twice_the_time_limit(tmp_path: Path) -> None:
    own_network = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*own_network, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a network of its own cannot be made here")
    running = {}
    for when in ("while it waits for an answer", "while its window is closed", "while it writes"):
        command = [*own_network, sys.executable, "-c", PROGRAM, when, str(tmp_path / when)]
        running[when] = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
    for when, process in running.items():
        said, errors = process.communicate(timeout=60)
        seconds, _, text = said.partition(" ")
        assert "p1:" in text, f"{when}: {errors}"
        assert "stood still" not in text and "transferred no byte" not in text
        assert float(seconds) < 2 * TIMEOUT_S + 0.5, f"{when}: {text}"


CUT_OFF = """
import subprocess, sys, time
from pathlib import Path
from sfio_emu import SfioError, StripedFile
from sfio_emu.adapters.listener_clients import Limits
from tests.helpers.listeners import listening, session_of

with listening(Path(sys.argv[2]), limits=Limits(silence_s=float(sys.argv[1]))) as addresses:
    file = StripedFile.open("p1/a", 75, session=session_of(addresses, timeout_s=60.0))
    file.pwrite(b"before", 0)
    subprocess.run(["ip", "link", "set", "lo", "down"], check=True)
    time.sleep(4.0)
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    try:
        print(file.pwrite(b"after", 0))
    except SfioError as error:
        print(error)
"""


@pytest.mark.long
def test_client_without_a_path_is_disconnected_after_the_silence_limit(
    tmp_path: Path,
) -> None:
    own_network = ["unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if subprocess.run([*own_network, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a network of its own cannot be made here")
    said = {}
    for silence_s in ("1", "60"):
        command = [
            *own_network,
            sys.executable,
            "-c",
            CUT_OFF,
            silence_s,
            str(tmp_path / silence_s),
        ]
        said[silence_s] = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=60
        )
    assert "its listener is gone" in said["1"].stdout, said["1"].stderr
    assert said["60"].stdout == "5\n", said["60"].stderr
