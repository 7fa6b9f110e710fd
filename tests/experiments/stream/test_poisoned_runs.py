"""Published runs of streams under faults, of walking nodes and of FT-DRB on switches, spoilt as their rivals say: the
verdicts must fail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from experiments.stream import ft_drb_fabric, mobility_manet
from testbed.model.run_records import FaultRecord, LoadedRun
from testbed.model.verdict import Check, Verdict
from testbed.results.result_store import load_run
from testbed.stream.judgement.checks import fault_block_size, fault_loss
from testbed.stream.judgement.fault_figures import FaultResult
from tests.helpers.other_packets import OtherPackets
from tests.helpers.study_rows import Rows, failed, published, published_run, spoilt

Row = dict[str, Any]


def published_sessions() -> LoadedRun:
    run = published_run("fault_injection_streaming")
    assert run is not None
    return load_run(Path(run.directory))


def judged(spoil: Callable[[FaultRecord, float], FaultRecord]) -> Verdict:
    """The checks of every fault that was measured, from its stored record. ``spoil(record, least)``: N without losses
    is the least."""
    checks: list[Check] = []
    for part in published_sessions().sessions:
        assert part.summary is not None and part.summary.base_block_size is not None
        for record in part.faults:
            least = part.summary.base_block_size
            result = _result(spoil(record, least))
            found = [fault_loss(result)]
            if result.predicted_block_size is not None:
                found.append(fault_block_size(result, round(least)))
            checks += [
                replace(check, about=f"{record.session}, {record.start_s}") for check in found
            ]
    return Verdict(checks=tuple(checks))


def _result(record: FaultRecord) -> FaultResult:
    values: dict[str, Any] = {
        field.name: getattr(record, field.name, None) for field in fields(FaultResult)
    }
    return FaultResult(**values)


def everything_lost(record: FaultRecord, least: float) -> FaultRecord:
    return replace(record, measured_loss=1.0, interval=(1.0, 1.0))


def nothing_lost(record: FaultRecord, least: float) -> FaultRecord:
    return replace(record, measured_loss=0.0, interval=(0.0, 0.0))


def size_of_rest(record: FaultRecord, least: float) -> FaultRecord:
    return replace(record, measured_block_size=least)


def test_the_stored_faults_are_judged_as_they_were() -> None:
    verdict = judged(lambda record, least: record)
    stored = published_sessions().verdict
    assert stored is not None and len(verdict.checks) >= 30
    outcomes = [
        check.outcome
        for check in stored.checks
        if ("loss, " in check.name or "block size, " in check.name)
    ]
    assert sorted(check.outcome for check in verdict.checks) == sorted(outcomes)


@pytest.mark.parametrize("spoil", [everything_lost, nothing_lost])
def test_a_link_that_takes_another_share_than_its_own_fails(
    spoil: Callable[[FaultRecord, float], FaultRecord],
) -> None:
    losses = [check for check in judged(spoil).checks if check.name.startswith("loss")]
    honest = [check.predicted for check in losses]
    wrong = 1.0 if spoil is everything_lost else 0.0
    assert losses and all(
        c.outcome == "fails" for c, p in zip(losses, honest, strict=True) if p != wrong
    )


def test_a_sender_that_never_raises_its_block_size_fails() -> None:
    sizes = [
        check
        for check in judged(size_of_rest).checks
        if check.name.startswith("block size") and check.rival
    ]
    assert sizes and all(check.outcome == "fails" for check in sizes)


def late_losses(row: Row) -> Row:
    """The plan is replaced only after the links have vanished, whatever was asked."""
    if row["handover"] != "before" or row["faults"]:
        return {}
    late = next(
        r for r in published("mobility_manet") if r["handover"] == "after" and not r["faults"]
    )
    return {"frames_measured": late["frames_measured"]}


def test_a_warning_that_saves_nothing_fails() -> None:
    rows = published("mobility_manet")
    assert "loss, " in failed(mobility_manet.judge(spoilt(rows, None, late_losses)))


@pytest.mark.parametrize(("by", "fails"), [(0, False), (1, True)])
def test_moving_nodes_fail_if_packets_do_not_follow_their_labels(
    by: int, fails: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = next(
        p for p in mobility_manet.points(True, 1) if p["handover"] == "after" and p["rate_per_s"]
    )
    monkeypatch.setattr("testbed.stream.fabric.open_fabric", lambda _: OtherPackets(by, share=1.0))
    row = point | {"rate_per_s": 0.05} | mobility_manet.measure(point | {"rate_per_s": 0.05})
    found = next(
        c for c in mobility_manet.judge([row]).checks if c.name.startswith("every prediction")
    )
    assert found.passed is not fails
    assert ("packets that fared otherwise" in found.detail.partition("failed:")[2]) is fails


def lossless(row: Row) -> Row:
    return {"frames_measured": [frame | {"measured_loss": 0.0} for frame in row["frames_measured"]]}


def in_the_wrong_frames(row: Row) -> Row:
    """The same losses, each a frame too late."""
    frames = row["frames_measured"]
    moved = [frames[-1], *frames[:-1]]
    return {
        "frames_measured": [
            frame | {"measured_loss": other["measured_loss"]}
            for frame, other in zip(frames, moved, strict=True)
        ]
    }


@pytest.mark.parametrize("spoil", [lossless, in_the_wrong_frames])
def test_losses_in_other_frames_than_predicted_fail(spoil: Callable[[Row], Row]) -> None:
    rows = published("mobility_manet")
    assert "furthest off" not in failed(mobility_manet.judge(rows))
    assert "furthest off" in failed(mobility_manet.judge(spoilt(rows, None, spoil)))


def as_one_path(row: Row) -> Row:
    """FT-DRB is told nothing: it loses what one path does."""
    single = next(r for r in FABRIC if (r["routing"], r["kind"]) == ("single", row["kind"]))
    if row["routing"] not in ("ft-drb", "ft-drb, header") or row["kind"] == "crowded":
        return {}
    return {
        key: single[key] for key in ("lost", "lost_s", "sent", "reconfigured_s", "returned_s")
    } | {"escaped": 0}


def of_routing(routing: str, kind: str, **changes: Any) -> Callable[[Row], Row]:
    return lambda row: changes if (row["routing"], row["kind"]) == (routing, kind) else {}


FABRIC: Rows = published("ft_drb_fabric")
SPOILT: Sequence[tuple[str, Callable[[Row], Row]]] = (
    ("until the escape", as_one_path),
    ("runs without an escape", as_one_path),
    ("until missing ACKs tell", as_one_path),
    ("back on its path", as_one_path),
    ("lost after the source reconfigured", lambda _: {"lost_after_reroute": 1}),
    (
        "share lost on one path",
        lambda r: {"lost": r["sent"] // 4} if r["routing"] == "single" else {},
    ),
    ("never told", of_routing("recomputed", "blackhole", lost=0)),
    ("to reconfigure", of_routing("recomputed", "down", reconfigured_s=0.001)),
    ("packets lost, FT-DRB against", of_routing("recomputed", "down", lost=0)),
    ("against FEC", of_routing(ft_drb_fabric.CODED, "down", latency_during_ms=[0.1, 0.1])),
    ("datagrams a message", of_routing(ft_drb_fabric.CODED, "down", datagrams_a_message=1.0)),
    ("not decoded in time", lambda r: {"lost": 3} if r["routing"] == ft_drb_fabric.CODED else {}),
    ("keep four paths open", of_routing("ft-drb, four paths", "crowded", paths=[])),
    ("against one path", of_routing("ft-drb, always", "crowded", latency_during_ms=[1e3, 1e3])),
)


@pytest.mark.parametrize(("words", "spoil"), SPOILT, ids=[words for words, _ in SPOILT])
def test_ft_drb_on_switches_fails_where_its_claim_does(
    words: str, spoil: Callable[[Row], Row]
) -> None:
    assert words in failed(ft_drb_fabric.judge(spoilt(FABRIC, None, spoil)))


LATENCIES = tuple(f"latency_{when}_ms" for when in ("before", "escaped", "during", "after"))
COUNTS = (
    "sent",
    "lost",
    "lost_s",
    "escaped",
    "port_status_s",
    "reconfigured_s",
    "returned_s",
    "datagrams_a_message",
)


def test_stored_run_of_ft_drb_on_switches_is_valid() -> None:
    assert ft_drb_fabric.STUDY.judged(FABRIC).invalid is None


@pytest.mark.parametrize("factor", [-1, 1000])
@pytest.mark.parametrize("key", (*COUNTS, *LATENCIES))
def test_impossible_figures_make_ft_drb_on_switches_invalid(key: str, factor: int) -> None:
    def times(row: Row) -> Row:
        found = row.get(key)
        if not found or (row["kind"] == "crowded" and key in COUNTS):
            return {}
        return {key: [factor * one for one in found] if key in LATENCIES else factor * found}

    changed = [
        k for k, row in enumerate(FABRIC) if key not in LATENCIES or max(row.get(key) or (0,)) > 1.1
    ]
    changed = [k for k in changed if times(FABRIC[k])][::7]
    assert changed and all(
        ft_drb_fabric.STUDY.judged(spoilt(FABRIC, k, times)).invalid for k in changed
    )


def test_another_cable_or_none_marked_fails_ft_drb_on_switches() -> None:
    def unmarked(row: Row) -> Row:
        return (
            {"marked_by": None}
            if row["routing"].startswith("ft-drb") and row["kind"] == "down"
            else {}
        )

    assert "s0_0->s1_0 failed" in str(
        ft_drb_fabric.judge(spoilt(FABRIC, 0, lambda _: {"link": "s0_0->s1_0"})).invalid
    )
    assert "runs without an escape" in failed(ft_drb_fabric.judge(spoilt(FABRIC, None, unmarked)))
