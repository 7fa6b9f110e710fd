"""Streams without a code and with a fixed block size, and what is told of a stream's packets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import testbed
from testbed.cli import main
from testbed.errors import InputError
from testbed.stream.judgement.streams import StreamJudgement, judge_stream
from testbed.stream.simulated import SimulatedStreamFabric

LINKS = Path(__file__).parents[2] / "user_inputs" / "tunnel_two_bad_links.json"


def judged(**options: Any) -> StreamJudgement:
    plan = testbed.stream_plan(
        LINKS, "home", "office", **{"faults": "none", "duration_s": 4.0, **options}
    )
    return judge_stream(plan, SimulatedStreamFabric().run(plan))


def test_uncoded_stream_loses_what_its_links_lose() -> None:
    judgement = judged(code="none")
    packets = judgement.document["packets"]
    assert packets["sent"] == packets["source"]
    assert packets["lost"] == packets["residual"] > 0
    assert packets["recovered"] == 0
    assert packets["block_size"] == {"mean": 20.0, "least": 20, "most": 20}
    check = next(c for c in judgement.verdict.checks if c.key == "residual-loss")
    assert check.passed
    assert check.predicted == pytest.approx((0.05 + 0.02 / 0.32) / 2)
    assert (check.rival, check.rival_note) == (0.0, "a code that repairs every loss")


def test_code_recovers_what_its_links_lose() -> None:
    judgement = judged()
    packets = judgement.document["packets"]
    assert judgement.verdict.passed
    assert packets["lost"] > packets["recovered"] > 100
    assert packets["residual"] < 10
    assert packets["block_size"]["least"] > 20
    by_link = {row["link"]: row for row in packets["lost_by_link"]}
    assert by_link["home->m1 loss:0.05"]["lost_share"] == pytest.approx(0.05, abs=0.02)
    assert by_link["home->m2 ge:p=0.02,r=0.3"]["lost_share"] == pytest.approx(0.0625, abs=0.03)
    assert 0.02 <= packets["delay_s"]["median"] <= packets["delay_s"]["p95"] <= 0.4
    assert not [c for c in judgement.verdict.checks if c.key == "residual-loss"]


def test_fixed_block_size_is_kept() -> None:
    packets = judged(block_size=26).document["packets"]
    assert packets["block_size"] == {"mean": 26.0, "least": 26, "most": 26}
    assert packets["sent"] * 20 == packets["source"] * 26
    assert packets["recovered"] > 0


def test_uncoded_stream_that_loses_nothing_fails() -> None:
    judgement = judged(code="none")
    run = judgement.run
    nothing = np.zeros_like(run.blocks.late_source_packets)
    spoilt = replace(run, blocks=replace(run.blocks, late_source_packets=nothing))
    failing = judge_stream(judgement.plan, spoilt).verdict.checks
    assert "residual-loss" in {check.key for check in failing if check.outcome == "fails"}


@pytest.mark.parametrize(
    "options",
    [
        {"faults": ["home->m1@1-2 loss 0.3"]},
        {"faults": ["home->m1@1-2"]},
        {"faults": ["home->m1@1-2 ge:p=0.1,r=0.1"]},
        {"labels": "random"},
        {"source_packets": 4, "rate_pps": 500},
    ],
)
def test_uncoded_stream_is_predicted_under_faults(options: dict[str, Any]) -> None:
    judgement = judged(code="none", **options)
    assert judgement.verdict.exit_code in (0, 5)
    check = next(c for c in judgement.verdict.checks if c.key == "residual-loss")
    assert check.passed, check


def test_trace_leaves_the_residual_loss_unpredicted() -> None:
    document = {
        "nodes": [{"id": "a"}, {"id": "b"}],
        "links": [{"source": "a", "target": "b", "impairments": "trace:ms=2x100+200"}],
    }
    plan = testbed.stream_plan(document, "a", "b", faults="none", duration_s=2.0, code="none")
    checks = judge_stream(plan, SimulatedStreamFabric().run(plan)).verdict.checks
    assert [c.outcome for c in checks if c.key == "residual-loss"] == ["cannot-tell"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"code": "none", "block_size": 22}, "block size 22 without a code"),
        ({"block_size": 3}, r"give a number from M \(20\) to 255"),
        ({"code": "turbo"}, "turbo"),
    ],
)
def test_rejects_block_sizes_that_do_not_fit(options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        judged(**options)


@pytest.mark.parametrize(
    ("option", "text"),
    [
        (["--code", "none"], "M = 20, no parity"),
        (["--block-size", "26"], "M = 20, N = 26"),
        ([], "residual loss: 0 source packets"),
    ],
)
def test_command_prints_what_became_of_the_packets(
    option: list[str],
    text: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    argv = ["stream", str(LINKS), "--from", "home", "--to", "office", "--faults", "none"]
    assert main([*argv, "--duration", "4s", "--fabric", "simulator", *option]) == 0
    printed = capsys.readouterr().out
    assert text in printed
    assert "home->m1 loss:0.05: " in printed
    page = next(tmp_path.rglob("page.html")).read_text()
    assert "lost source packets recovered" in page
