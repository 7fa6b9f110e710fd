"""What programs' own output is read as: a rate through each failure, a picture's likeness to the one that was sent."""

from __future__ import annotations

import contextlib
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any, cast

import pytest

import testbed
from testbed.tunnel.emulated import programs
from testbed.tunnel.figures import trial_figures


def place_in(folder: Path) -> programs.Place:
    nobody = cast(Any, None)
    return programs.Place(net=nobody, source=nobody, sink=nobody, address="10.0.0.2", folder=folder)


def test_tcp_is_told_by_the_second_and_through_each_failure(tmp_path: Path) -> None:
    faults = ["s0_0->s0_1@1-1.5", "s0_0->s0_1@4-7"]
    plan = testbed.tunnel_plan(
        "torus:3x3", ("s0_0", "s1_1"), duration_s=10.0, workload="tcp", faults=faults
    )
    rates = [2e6 if 10 <= k < 25 or 40 <= k < 60 else 8e6 for k in range(100)]
    end = {"sum_received": {"bits_per_second": 6.8e6}, "sum_sent": {"retransmits": 4}}
    told = {"intervals": [{"sum": {"bits_per_second": rate}} for rate in rates], "end": end}
    (tmp_path / "tcp").write_text(json.dumps(told))
    found = programs.outcome(plan, place_in(tmp_path), "tcp")
    assert (found["goodput_bps"], found["retransmits"], found["least_bps"]) == (
        6_800_000,
        4,
        2_000_000,
    )
    assert found["bps"][:3] == [8_000_000, 2_000_000, 5_000_000] and len(found["bps"]) == 10
    assert found["failures"] == [
        {"start_s": 1.0, "lasts_s": 0.5, "bps": 2_000_000},
        {"start_s": 4.0, "lasts_s": 3.0, "bps": 5_000_000},
    ]


def test_files_are_served_where_no_name_server_responds(tmp_path: Path) -> None:
    """The server of Python's own waited for its host's name, longer than a run lasts: wget fetched nothing."""
    (tmp_path / "file").write_bytes(b"whole")
    found = programs.listening(place_in(tmp_path), programs.FETCH)
    assert found is not None
    script, _, folder = found[0][found[0].index("-c") + 1 :]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    mute = (
        "import socket, time; socket.getfqdn = socket.gethostbyaddr = lambda *_: time.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", mute + script, str(port), folder], stderr=subprocess.DEVNULL
    ) as server:
        try:
            until_s, got = time.monotonic() + 10, b""
            while not got and time.monotonic() < until_s:
                with contextlib.suppress(OSError):
                    got = urllib.request.urlopen(f"http://127.0.0.1:{port}/file", timeout=5).read()
        finally:
            server.kill()
    assert got == b"whole"


def test_a_program_that_does_not_end_is_killed_and_any_keeps_its_exit_code() -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(60)"
    program = subprocess.Popen([sys.executable, "-c", deaf], stdout=subprocess.PIPE)
    assert (
        program.stdout is not None
        and program.stdout.read(1)
        and programs.ended(program) == -signal.SIGKILL
    )
    program.stdout.close()
    over = subprocess.Popen([sys.executable, "-c", "raise SystemExit(7)"])
    over.wait(60)
    assert programs.ended(over) == 7


def test_both_congestion_controls_are_asked_for_by_name(tmp_path: Path) -> None:
    plan = testbed.tunnel_plan("torus:3x3", ("s0_0", "s1_1"), duration_s=10.0, workload="tcp")
    words = [programs.sending(plan, place_in(tmp_path), name) for name in ("tcp", programs.BBR)]
    assert [one[one.index("-C") + 1] for one in words] == ["cubic", "bbr"]
    assert (
        programs.lacking(programs.BBR) == {} or "no bbr" in programs.lacking(programs.BBR)["error"]
    )


@pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed")
def test_a_picture_that_lost_packets_is_less_like_the_one_that_was_sent(tmp_path: Path) -> None:
    sent = programs.make_clip(tmp_path, 2.0).read_bytes()
    came = tmp_path / "came.ts"
    came.write_bytes(sent)
    whole = programs.compared(tmp_path, 50)
    assert (whole["frames"], whole["identical"], whole["psnr_db"], whole["ssim"]) == (
        50,
        50,
        100.0,
        1.0,
    )
    assert [db for _, db in whole["psnr_db_over_time"]] == [100.0, 100.0]
    packets = [sent[at : at + 1316] for at in range(0, len(sent), 1316)]
    came.write_bytes(b"".join(one for k, one in enumerate(packets) if k % 10 != 5))
    damaged = programs.compared(tmp_path, 50)
    assert damaged["identical"] < 50 and damaged["psnr_db"] < 60 and damaged["ssim"] < 1
    came.write_bytes(b"")
    nothing = programs.compared(tmp_path, 50)
    assert (nothing["frames"], nothing["identical"], nothing["psnr_db"]) == (50, 0, None)


def test_the_picture_has_a_figure_of_its_own() -> None:
    row = {
        "opinions": {},
        "pictures": {"none": [(0.5, 30.0)], "adaptive": [(0.5, 100.0)]},
        "duration_s": 1.0,
    }
    (figure,) = trial_figures([row | {"faults": [], "between": ["a", "b"]}]).values()
    assert [line.get_label() for line in figure.axes[0].lines] == ["none", "adaptive"]
