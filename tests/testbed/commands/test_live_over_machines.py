"""``--live`` over several machines: the page has the loads of links whichever machine has them, and of those between
machines."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest

from testbed.emulation.sandbox.sandbox import probe_sandbox
from tests.helpers.paths import ROOT
from tests.helpers.warm import TESTBED, WarmProcess

pytest.importorskip("aiohttp")
pytest.importorskip("prometheus_client")
OBSTACLE = probe_sandbox(clock_offset_s=1)
pytestmark = [
    pytest.mark.emulation,
    pytest.mark.unclocked,
    pytest.mark.skipif(OBSTACLE is not None, reason=str(OBSTACLE)),
]
SWISS = "swiss-t1:allocation=1-1-1-1-0-0-0-0"
PLACE = {"machines": [["s0", "s1"], ["s2", "s3"]]}
COMMANDS = {
    "stream": (
        "stream", "ring:4", "--from", "s0", "--to", "s2", "--packet-rate", "200", "--faults", "none", "--duration", "2"
    ),
    "bulk": ("bulk", SWISS, "--no-comparison", "--message-size", "500kB", "--link-rate", "5Mbps"),
    "sfio": ("sfio", SWISS, "--compute-nodes", "4", "--io-nodes", "4", "--file-size", "4MB", "--link-rate", "5Mbps"),
    "mobility": (
        "mobility", "manet:nodes=12,seed=3", "--from", "n0", "--to", "n11", "--frames", "2", "--frame-duration", "2",
        "--retries", "0"
    ),
    "run": ("run", SWISS, "--compute-nodes", "2", "--io-nodes", "2"),
}  # fmt: skip
PROGRAM = ("--", "sh", "-c", "sleep 4")


def told(command: str, folder: Path) -> tuple[list[dict[str, Any]], int]:
    """What the page was told while the command ran, and its exit code."""
    (folder / "place.json").write_text(json.dumps(PLACE))
    words = [*COMMANDS[command], "--machines", "2", "--live", "--results", str(folder)]
    words += ["--machine-placement", str(folder / "place.json")] if command == "stream" else []
    words += PROGRAM if command == "run" else ()
    run = WarmProcess(
        [*TESTBED, *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert run.stderr is not None
        with urlopen(run.stderr.readline().split()[-1] + "events", timeout=90) as events:
            found = [json.loads(line[5:]) for line in events if line.startswith(b"data:")]
        run.communicate(timeout=60)
    finally:
        run.kill()
        run.wait()
    return found, run.returncode


@pytest.mark.parametrize(
    "command",
    [pytest.param(c, marks=[pytest.mark.soak] if c != "stream" else []) for c in COMMANDS],
)
@pytest.mark.long
def test_the_page_has_what_all_machines_tell(command: str, tmp_path: Path) -> None:
    found, code = told(command, tmp_path)
    assert code in (0, 4)  # 4: too busy to be judged, which the page says as well
    loads = [one["links"] for one in found if one.get("network") and one.get("links")]
    assert loads and (code == 4 or any(one.get("outcome") == "passed" for one in found))
    if command == "stream":
        most = {
            link: max(sample[link][0] for sample in loads)
            for link in ("s0->s1", "s1->s2", "s0->s3", "s3->s2")
        }
        assert all(load > 0.2 for load in most.values()), (
            most
        )  # s1->s2 and s0->s3 lie between machines


@pytest.mark.soak
def test_live_page_shows_loads_between_machines(
    tmp_path: Path,
) -> None:
    (tmp_path / "place.json").write_text(json.dumps(PLACE))
    words = [
        "up",
        "ring:4",
        "--machines",
        "2",
        "--live",
        "--machine-placement",
        str(tmp_path / "place.json"),
    ]
    held = WarmProcess(
        [*TESTBED, *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    waited_for = {"s1->s2", "s2->s1"}  # between machines
    try:
        assert held.stdin is not None and held.stderr is not None
        held.stdin.write("h1 ping -i 0.2 -s 1400 10.0.0.3\n")  # read when the network is up
        held.stdin.flush()
        with urlopen(held.stderr.readline().split()[-1] + "events", timeout=90) as events:
            for line in events:
                links = json.loads(line[5:]).get("links", {}) if line.startswith(b"data:") else {}
                waited_for -= {link for link, load in links.items() if load[0] > 0}
                if not waited_for:
                    break
    finally:
        held.kill()
        held.wait()
    assert not waited_for
