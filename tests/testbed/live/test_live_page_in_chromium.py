"""The live page in a real browser while a stream runs over real switches: a cut cable shows within a second, and the
end is told."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from testbed.emulation.machine.capabilities import emulation_problem
from tests.helpers import chromium_pipe
from tests.helpers.warm import TESTBED, WarmProcess

ROOT = Path(__file__).parents[3]
CUT_S, MENDED_S = 6.0, 8.0
SEEN = """new Promise((found) => {
  const look = () => {
    const words = document.getElementById("faults").textContent;
    const dead = [...document.querySelectorAll(".link.down")].filter((g) => g.checkVisibility())
        .map((g) => g.dataset.link);
    const at = Number((/([0-9.]+) s$/.exec(document.getElementById("doing").textContent) || [])[1]);
    if (%s) found({ words, dead, at });
    else setTimeout(look, 20);
  };
  look();
})"""


def _stream(folder: Path) -> tuple[subprocess.Popen[bytes], str]:
    words = [
        "stream",
        "swiss-t1",
        "--from",
        "s1",
        "--to",
        "s6",
        "--faults",
        f"s1->s2@{CUT_S}-{MENDED_S}",
        "--duration",
        "10",
        "--live",
    ]
    run = WarmProcess(
        [*TESTBED, *words, "--fabric", "emulation", "--results", str(folder)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert run.stderr is not None
    return run, next(
        line for line in iter(run.stderr.readline, b"") if line.startswith(b"live: ")
    ).split()[1].decode()


@pytest.mark.emulation
@pytest.mark.long
def test_a_cut_shows_within_a_second(tmp_path: Path) -> None:
    pytest.importorskip("aiohttp")
    program, obstacle = chromium_pipe.find_chromium(), emulation_problem()
    if program is None:
        pytest.skip("no Chromium on this machine; install chromium")
    if obstacle is not None:
        pytest.skip(f"no emulation: {obstacle}")
    with chromium_pipe.Browser(program) as browser:
        run, address = _stream(tmp_path)
        try:
            browser.open(address, width=1280)
            before: dict[str, Any] = browser.evaluate(
                SEEN % "at > 0.5 && document.querySelector('.steps.loss')"
            )
            cut = browser.evaluate(SEEN % "dead.length && words.endsWith(' down')")
            mended = browser.evaluate(SEEN % f"at > {CUT_S} && !dead.length")
            run.wait(timeout=60)
            time.sleep(0.2)
            end = browser.evaluate("document.getElementById('end').textContent")
            browser.evaluate("document.querySelector('#end a').removeAttribute('target')")
            browser.evaluate("document.querySelector('#end a').click()")
            time.sleep(1.0)
            linked = "<!doctype html>" + browser.evaluate("document.documentElement.outerHTML")
        finally:
            run.kill()
            run.wait()
            assert run.stderr is not None
            run.stderr.close()
    assert before["at"] < CUT_S, "the browser came too late to see the beginning"
    assert before["words"] == "No active fault." and not before["dead"]
    assert cut["dead"] == ["s1->s2"] and cut["words"] == "Active faults: s1->s2 down"
    assert cut["at"] + 0.2 >= CUT_S and cut["at"] <= CUT_S + 1.0
    assert mended["at"] <= MENDED_S + 1.0
    assert end.startswith("Run finished: ") and "page.html" in end
    assert linked.startswith("<!doctype html>") and "swiss-t1" in linked
    assert browser.messages == []
    assert {
        url.removeprefix(address)
        for url in browser.requests
        if not url.startswith(("data:", "blob:"))
    } == {
        "",
        "events",
    }


@pytest.mark.emulation
def test_clicks_fail_and_repair_a_cable_of_a_running_network() -> None:
    pytest.importorskip("aiohttp")
    program, obstacle = chromium_pipe.find_chromium(), emulation_problem()
    if program is None:
        pytest.skip("no Chromium on this machine; install chromium")
    if obstacle is not None:
        pytest.skip(f"no emulation: {obstacle}")
    run = WarmProcess(
        [*TESTBED, "up", "ring:4", "--live"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    assert run.stderr is not None and run.stdin is not None
    link = """[...document.querySelectorAll('.cable')].find((g) => g.dataset.link === 's0->s1')"""
    try:
        lines = iter(run.stderr.readline, b"")
        address = next(line for line in lines if line.startswith(b"live: ")).split()[1].decode()
        with chromium_pipe.Browser(program) as browser:
            browser.open(address, width=1280)
            wait = "new Promise((done) => {const look = () => (%s) ? done(1) : setTimeout(look, 50); look()})"
            browser.evaluate(
                wait % f"({link}) && ({link}).getAttribute('aria-label') === 'cut s0->s1'"
            )
            for down, words in ((True, "repair s0->s1"), (False, "cut s0->s1")):
                browser.evaluate(f"({link}).dispatchEvent(new MouseEvent('click'))")
                browser.evaluate(
                    wait % f"({link}).classList.contains('down') === {str(down).lower()}"
                )
                assert browser.evaluate(f"({link}).getAttribute('aria-label')") == words
                assert browser.evaluate("document.getElementById('refused').textContent") == ""
            assert [one for one in browser.messages if "cable" in one] == []
    finally:
        run.stdin.close()
        try:
            run.wait(timeout=60)
        finally:
            run.kill()
            run.stderr.close()
