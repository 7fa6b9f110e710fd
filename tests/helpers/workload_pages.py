"""One page of everything that makes one, and pictures of them: ``python -m tests.helpers.workload_pages FOLDER``.

Every workload on the simulated fabric, every command that only computes, a comparison, a campaign and a study, each
as short as it can be; then light, dark, on a phone (390 px) and in print.
"""

from __future__ import annotations

import contextlib
import io
import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from testbed.cli import main
from tests.helpers import chromium_pipe

STREAM = "stream swiss-t1 --from s1 --to s6 --fabric simulator --packet-rate 300 --max-faults 3"
COMMANDS: dict[str, str] = {
    "stream": STREAM,
    "stream-two": "stream ring:4 --from s0 --to s2 --flow s1:s3 --max-faults 1 --packet-rate 300 --fabric simulator",
    "mobility": "mobility manet:nodes=12,seed=2 --from n0 --to n5 --frames 2 --fabric simulator",
    "download": "download ring:4 --from s0 --to s2 --fabric simulator --file-size 1MB",
    "bulk": "bulk torus:3x3 --fabric simulator --message-size 100kB",
    "bulk-faults": "bulk ring:4 --fabric simulator --faults s0->s1@0.1-0.3 --message-size 100kB",
    "sfio": "sfio swiss-t1 --compute-nodes 3 --io-nodes 3 --fabric simulator --operation both",
    "wavelengths-run": "wavelengths optical-cloud --pattern x1:x14,x2:x5 --fabric simulator",
    "simulate": "simulate torus:4x4 --loads 0.1:0.5:0.2 --repetitions 2 --duration 1e-4",
    "simulate-nac": "simulate torus:4x4 --load 0.5 --deadlock-avoidance nac --duration 1e-4",
    "campaign": "campaign methods.toml --workers 1",
    "study": "experiment run liquid_patterns --quick",
    "route": "route swiss-t1 --from s1 --to s6",
    "route-two": "route torus:4x4 --flow s0_0:s2_2 --flow s1_1:s3_3",
    "ror": "ror swiss-t1 --from s1 --to s6",
    "ror-methods": "ror optical-cloud --from x1 --to x11 --routing single --routing ecmp --routing capillary",
    "schedule": "schedule swiss-t1:allocation=1-1-1-1-0-0-0-0",
    "schedule-file": "schedule --traffic transfers.json",
    "demands": "demands ring:4 --routing ecmp --routing capillary --routing single",
    "wavelengths": "wavelengths optical-cloud --pattern x1:x14,x2:x5",
}
"""Name of a page -> the command that makes it."""
_CAMPAIGN = """# Three methods on two networks.
name = "methods"
networks = ["ring:4", "optical-cloud"]
pairs = 3
methods = ["single", "ecmp", "capillary"]
tolerances = [0.02, 0.05]
"""
_TRANSFERS = {"transfers": [["a", "b"], ["b", "c"], ["a", "c"]]}


def make_pages(folder: Path, names: Sequence[str] = tuple(COMMANDS)) -> dict[str, Path]:
    """Run the commands; name -> page."""
    folder.mkdir(parents=True, exist_ok=True)
    pages: dict[str, Path] = {}
    with contextlib.chdir(folder):
        Path("methods.toml").write_text(_CAMPAIGN)
        Path("transfers.json").write_text(json.dumps(_TRANSFERS))
        for name in names:
            out = io.StringIO()
            with (
                contextlib.redirect_stdout(out),
                mock.patch("sys.argv", ["testbed", *shlex.split(COMMANDS[name])]),
            ):
                code = main([*shlex.split(COMMANDS[name]), "--results", f"results/{name}"])
            found = [
                line.partition(":")[2].strip()
                for line in out.getvalue().splitlines()
                if line.startswith("page:")
            ]
            assert code in (0, 1, 4, 5) and found, f"{name}: {code}\n{out.getvalue()}"
            pages[name] = folder / found[-1]
        if {"route", "stream"} <= set(names):
            runs = sorted(path for path in Path("results/stream/stream").iterdir())
            main([*shlex.split(f"{STREAM} --results results/stream --routing ecmp")])
            runs = sorted(path for path in Path("results/stream/stream").iterdir())
            main(["compare", *map(str, runs), "--output", "compare.html"])
            pages["compare"] = folder / "compare.html"
    return pages


def photograph(browser: chromium_pipe.Browser, page: Path, folder: Path, name: str) -> None:
    """Four pictures of a page."""
    for kind, width, dark in (("light", 1280, False), ("dark", 1280, True), ("phone", 390, False)):
        browser.open(page, width=width, dark=dark)
        browser.screenshot(folder / f"{name}-{kind}.png")
    browser.open(page, width=1040)
    browser.call("Emulation.setEmulatedMedia", media="print")
    browser.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    browser.screenshot(folder / f"{name}-print.png")
    browser.call("Emulation.setEmulatedMedia", media="")


if __name__ == "__main__":
    program = chromium_pipe.find_chromium()
    assert program is not None, "no Chromium on this machine; install chromium"
    place = Path(sys.argv[1]).absolute()
    made = make_pages(place, sys.argv[2:] or tuple(COMMANDS))
    with chromium_pipe.Browser(program) as running:
        for name, page in made.items():
            photograph(running, page, place, name)
