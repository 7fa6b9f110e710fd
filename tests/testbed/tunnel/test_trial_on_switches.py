"""A trial on real switches: nothing is lost under the code while a cable is cut, and a program keeps its exit code."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.cli import build_parser
from testbed.commands.arguments import read_options
from testbed.tunnel.emulated.programs import missing_programs
from testbed.tunnel.options import TunnelOptions
from tests.helpers.ordinary_user import ordinary


def test_words_behind_two_dashes_are_the_programs_own() -> None:
    words = [
        "tunnel",
        "ring:4",
        "--between",
        "s0",
        "s2",
        "--mode",
        "static",
        "--",
        "ping",
        "-c",
        "3",
        "{peer}",
    ]
    read = read_options(build_parser("tunnel").parse_args(words), TunnelOptions)
    assert (
        read.between == ("s0", "s2")
        and read.mode == "static"
        and read.command == ("ping", "-c", "3", "{peer}")
    )
    plain = read_options(build_parser("tunnel").parse_args(words[:5]), TunnelOptions)
    assert plain.command == () and plain.order_s is None


def test_missing_programs_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "shutil.which", lambda program: None if program == "iperf3" else "/usr/bin/" + program
    )
    assert missing_programs(("ping", "voip", "udp", "tcp", "video")) == {
        "udp": "iperf3",
        "tcp": "iperf3",
    }


@pytest.mark.emulation
def test_ordinary_users_voice_survives_a_cut_cable(
    tmp_path: Path, valid_run: Callable[..., Any]
) -> None:
    words = [
        sys.executable,
        "-m",
        "testbed.cli",
        "tunnel",
        "torus:3x3",
        "--between",
        "s0_0",
        "s1_1",
        "--duration",
        "3s",
    ]
    words += [
        "--mode",
        "adaptive",
        "--workload",
        "voip",
        "--faults",
        "s0_0->s0_1@1-2",
        "--json",
        "--",
        "sh",
        "-c",
    ]
    words += ["ping -c 3 -i 0.2 {peer} >&2 && exit 7"]
    command = ordinary(["sh", "-c", 'cd $HOME && exec "$@"', "sh", *words], tmp_path / "compiled")
    own = {**os.environ, "HOME": str(tmp_path)}
    done = valid_run(
        lambda: subprocess.run(
            command, capture_output=True, text=True, timeout=100, check=False, env=own
        )
    )
    assert done.returncode == 0, done.stderr + done.stdout
    document = json.loads(done.stdout)
    (row,) = document["modes"]
    assert row["packets"] >= 150 and row["lost"] == 0 < row["recovered"]
    assert document["command_exit_codes"] == [7]


@pytest.mark.emulation
@pytest.mark.long
def test_a_run_that_fills_its_links_says_nothing_of_the_tunnel(tmp_path: Path) -> None:
    words = [
        "torus:3x3",
        "--between",
        "s0_0",
        "s1_1",
        "--duration",
        "3s",
        "--faults",
        "none",
        "--mode",
        "none",
    ]
    words += [
        "--workload",
        "udp",
        "--udp-rate",
        "80Mbps",
        "--retries",
        "0",
        "--results",
        str(tmp_path),
    ]
    command = [sys.executable, "-m", "testbed.cli", "tunnel", *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 4, done.stderr + done.stdout
    assert re.search("packets were dropped|packets lay|was .* late", done.stdout + done.stderr)
