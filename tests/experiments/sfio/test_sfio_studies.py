"""Studies of striped files: points that differ, verdicts on published rows and on the same spoilt as a rival would have
them, and figures from rows alone."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pytest

from experiments.sfio import (
    crossbar,
    granularity,
    multi_block,
    placed_writes,
    placements,
    scaling,
    swiss_t1,
)
from experiments.sfio.accesses import ablation, fragmentation, overlap
from experiments.sfio.runs import measure_access
from testbed.commands.studies.study_runner import run_study
from testbed.errors import InvalidRunError
from testbed.striping.measurements import ClientError, OperationRecord, StripingMeasurements
from testbed.striping.placement import place
from tests.helpers.study_rows import Change, Rows, failed, published, published_run, spoilt
from topologies import load_network

EVERY = (
    ablation,
    crossbar,
    fragmentation,
    granularity,
    multi_block,
    overlap,
    placed_writes,
    placements,
    scaling,
    swiss_t1,
)
ON_SWITCHES = tuple(study for study in EVERY if study is not placements)


def named(value: Any) -> Any:
    return value.STUDY.name if hasattr(value, "STUDY") else None


def whole_run(study: Any) -> bool:
    run = published_run(study.STUDY.name)
    return run is not None and run.state != "unfinished"


PUBLISHED = tuple(study for study in EVERY if whole_run(study))
EACH_PUBLISHED = pytest.mark.parametrize("study", PUBLISHED, ids=named)


def rows_of(study: Any) -> Rows:
    """As published; what the machine lacked set aside, for what is tested is what a verdict makes of the figures."""
    return [{**row, "invalid": None} for row in published(study.STUDY.name)]


def test_published_sfio_studies_still_exist() -> None:
    kept = {
        ablation,
        crossbar,
        fragmentation,
        granularity,
        multi_block,
        overlap,
        placements,
        scaling,
        swiss_t1,
    }
    assert kept <= set(PUBLISHED)


AGAINST_THE_DOCUMENT: dict[Any, dict[str, str]] = {
    crossbar: {"average throughput at 31 nodes": "it goes on in proportion to the nodes"},
}
"""Claims that our published runs contradict: study -> words of the check -> what came out."""


@pytest.mark.parametrize("study", EVERY, ids=named)
@pytest.mark.parametrize("quick", [True, False])
def test_points_differ_and_are_json(study: Any, quick: bool) -> None:
    keys = [json.dumps(point, sort_keys=True) for point in study.points(quick, 1)]
    assert len(set(keys)) == len(keys) > 5


@pytest.mark.parametrize("study", EVERY, ids=named)
def test_a_study_has_a_title_and_says_how_it_deviates(study: Any) -> None:
    assert study.STUDY.title and study.STUDY.deviations and "Gabrielyan 2007" in study.STUDY.answers


@EACH_PUBLISHED
def test_verdict_holds_except_where_measurements_contradict_the_document(
    study: Any,
) -> None:
    verdict = study.judge(rows_of(study))
    contradicted = AGAINST_THE_DOCUMENT.get(study, {})
    assert [
        c.name
        for c in verdict.checks
        if not c.passed and not any(words in c.name for words in contradicted)
    ] == []
    for words in contradicted:
        assert [check for check in verdict.checks if words in check.name and not check.passed]


@EACH_PUBLISHED
def test_every_check_names_its_rival_or_says_why_there_is_none(study: Any) -> None:
    for check in study.judge(rows_of(study)).checks:
        assert check.rival_note and check.relation != "states", check.name


POISONED: list[tuple[Any, int | None, Change, str]] = [
    (
        placements,
        None,
        lambda r: {"liquid_links": r["nodes"]} if r.get("liquid_links") else {},
        "24 over 12 nodes",
    ),
    (
        placements,
        None,
        lambda r: {"predicted_bps": 1e7} if r.get("predicted_bps") else {},
        "median throughput at 32",
    ),
    (
        placements,
        None,
        lambda r: {"predicted_bps": 2e7} if r.get("predicted_bps") else {},
        "31 nodes, circuits",
    ),
    (
        placements,
        None,
        lambda r: {"liquid_links": 0.6 * r["nodes"]} if r.get("liquid_links") else {},
        "a quarter of",
    ),
    (
        placements,
        None,
        lambda r: {"liquid_links": 12.0} if r["nodes"] == 16 else {},
        "16 nodes: highest over lowest",
    ),
    (
        placements,
        None,
        lambda r: (
            {"halves_deciles": [2 * x for x in r["halves_deciles"]]}
            if r["nodes"] == 18 and r.get("draws")
            else {}
        ),
        "median throughput at 18 over 16",
    ),
]
POISONED += [
    (
        granularity,
        None,
        lambda r: {"throughput_bps": 5e7} if r["optimised"] and r["stripe_unit"] == 200 else {},
        "slowest stripe unit",
    ),
    (
        granularity,
        None,
        lambda r: {"throughput_bps": 9e7} if not r["optimised"] else {},
        "non-optimised write at 75",
    ),
    (
        granularity,
        None,
        lambda r: {"throughput_bps": 1e6} if not r["optimised"] else {},
        "gain of the optimised write at",
    ),
    (
        granularity,
        None,
        lambda r: (
            {"throughput_bps": 9e5} if not r["optimised"] and r["stripe_unit"] == 1005 else {}
        ),
        "write becomes slower",
    ),
    (
        granularity,
        None,
        lambda r: (
            {"throughput_bps": 5e7}
            if (r["file_bytes"], r["stripe_unit"]) == (660_000_000, 75)
            else {}
        ),
        "a file of 660 MB",
    ),
    (
        overlap,
        None,
        lambda r: {"seconds": 7.9} if r["slow"] == "both" else {},
        "cost no time, pipelined",
    ),
    (
        overlap,
        None,
        lambda r: {"seconds": 4.3} if r["slow"] == "both" else {},
        "less that of one message at a time",
    ),
    (
        overlap,
        None,
        lambda r: {"seconds": 4.3} if r["slow"] == "both" else {},
        "throughput with the window of messages",
    ),
    (
        overlap,
        None,
        lambda r: {"seconds": 0.2} if r["slow"] == "disk" else {},
        "rate over the one it was given",
    ),
    (ablation, None, lambda r: {"disk_calls": 72}, "write: disk accesses with no sort"),
    (ablation, None, lambda r: {"disk_calls": 36}, "read: disk accesses with no merge"),
    (ablation, None, lambda r: {"messages": 6}, "write: messages with no combine"),
    (ablation, None, lambda r: {"messages": 6}, "read: messages with none"),
    (
        ablation,
        None,
        lambda r: {"throughput_bps": 1.8e8},
        "write: throughput with all optimisations over that with no sort",
    ),
    (
        ablation,
        None,
        lambda r: {"throughput_bps": 1.8e8},
        "read: throughput with all optimisations over that with none",
    ),
]
POISONED += [
    (
        crossbar,
        None,
        lambda r: {"throughput_bps": 5e6} if r["series"] == "halves-free" else {},
        "exponent of throughput",
    ),
    (
        crossbar,
        None,
        lambda r: {"throughput_bps": 5e6} if r["series"] == "halves-free" else {},
        "share of all links",
    ),
    (crossbar, None, lambda r: {"throughput_bps": 2.5e6 * r["nodes"]}, "striped file in turns"),
    (
        crossbar,
        None,
        lambda r: {"mean_bps": 8e5 * r["nodes"]} if r["series"] == "striped" else {},
        "a node's share of",
    ),
    (
        swiss_t1,
        None,
        lambda r: {"throughput_bps": 1e7} if r["series"] == "halves" else {},
        "to half: throughput at 10 over",
    ),
    (
        swiss_t1,
        None,
        lambda r: {"throughput_bps": 1e7} if r["series"] == "halves" else {},
        "to half: throughput at 18 over",
    ),
    (
        swiss_t1,
        None,
        lambda r: {"throughput_bps": 1e7} if r["series"] == "halves" else {},
        "to half: throughput at 26 over",
    ),
    (
        swiss_t1,
        None,
        lambda r: {"throughput_bps": 3e7} if r["series"] == "striped-liquid" else {},
        "to all: throughput at 26 over",
    ),
    (
        swiss_t1,
        None,
        lambda r: {"throughput_bps": 0.6 * r["liquid_bps"]},
        "half sends to half, liquid schedule",
    ),
    (
        swiss_t1,
        None,
        lambda r: {"throughput_bps": 0.6 * r["liquid_bps"]},
        "all to all, liquid schedule",
    ),
    (
        multi_block,
        None,
        lambda r: (
            {"throughput_bps": 1e7} if r["multi_block"] and r["access_block_bytes"] == 4096 else {}
        ),
        "slowest block",
    ),
    (
        multi_block,
        None,
        lambda r: {"throughput_bps": 5e7} if not r["multi_block"] else {},
        "multi-block over single-block write",
    ),
    (
        multi_block,
        None,
        lambda r: {"throughput_bps": 8e7} if not r["multi_block"] else {},
        "over the fastest of all",
    ),
    (
        multi_block,
        None,
        lambda r: (
            {"throughput_bps": r["access_block_bytes"] * 10.0} if not r["multi_block"] else {}
        ),
        "single-block writes of large blocks",
    ),
    (scaling, None, lambda r: {"throughput_bps": 1e7}, "in turns over circuits: exponent"),
    (scaling, None, lambda r: {"throughput_bps": 1e7}, "all at once: exponent"),
    (
        scaling,
        None,
        lambda r: {"throughput_bps": 4e7 / r["compute_nodes"]},
        "in turns over circuits: throughput of 2",
    ),
    (
        scaling,
        None,
        lambda r: {"throughput_bps": 4e7 / r["compute_nodes"]},
        "all at once: throughput of 2",
    ),
    *(
        (
            fragmentation,
            None,
            lambda r: {"throughput_bps": 6e7 if r["scenario"] == "neither" else 6e6},
            f"{operation}, fragmented in {where}",
        )
        for operation in ("write", "read")
        for where in ("memory", "the file", "both")
    ),
    (
        placed_writes,
        None,
        lambda r: {"throughput_bps": r["liquid_bps"]},
        "measured over predicted throughput",
    ),
    (
        placed_writes,
        None,
        lambda r: {"throughput_bps": 0.6 * r["liquid_bps"]},
        "liquid schedule: measured over liquid",
    ),
    (
        placed_writes,
        None,
        lambda _: {"throughput_bps": 3e7},
        "circuits as they come: median throughput",
    ),
    (
        placed_writes,
        None,
        lambda r: {"throughput_bps": r["nodes"] * 4.5e6},
        "throughput of a node at 24 nodes",
    ),
    (placed_writes, None, lambda _: {"throughput_bps": 3e7}, "31 nodes, circuits as they come"),
]
POISONED = [case for case in POISONED if case[0] in PUBLISHED]


@pytest.mark.parametrize(("study", "at", "change", "words"), POISONED, ids=named)
def test_a_verdict_fails_where_its_claim_does(
    study: Any, at: int | None, change: Change, words: str
) -> None:
    assert words in failed(study.judge(spoilt(rows_of(study), at, change)))


MANY = "striped", "striped-one-link"


def test_a_throughput_that_falls_beyond_12_nodes_would_be_seen() -> None:
    fallen = spoilt(
        rows_of(crossbar),
        None,
        lambda r: {"mean_bps": 3e7} if r["series"] in MANY and r["nodes"] > 12 else {},
    )
    assert "average throughput at 31 nodes" not in failed(crossbar.judge(fallen))


@pytest.mark.parametrize("study", [s for s in PUBLISHED if s in ON_SWITCHES], ids=named)
def test_unverified_content_fails_and_slow_machine_is_invalid(
    study: Any,
) -> None:
    rows = rows_of(study)
    broken = study.judge(spoilt(rows, 0, lambda _: {"verified": False}))
    assert (
        "runs whose content was verified" in failed(broken)
        and broken.checks[0].measured == len(rows) - 1
    )
    lagging = study.judge(spoilt(rows, -1, lambda _: {"invalid": "threads were late"}))
    assert (
        lagging.exit_code == 4 and lagging.invalid == f"1 of {len(rows)} points: threads were late"
    )


@EACH_PUBLISHED
def test_figures_have_labelled_axes_and_show_every_measured_point(study: Any) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    rows = rows_of(study)
    drawn = set[float]()
    for figure in study.figures(json.loads(json.dumps(rows))).values():
        for axes in figure.axes:
            assert axes.get_xlabel() and axes.get_ylabel() and axes.get_legend() is not None
            drawn |= {float(y) for line in axes.get_lines() for y in line.get_ydata()}
            drawn |= {
                float(y)
                for points in axes.collections
                if len(points.get_offsets())
                for _, y in points.get_offsets()
            }
            drawn |= {float(bar.get_height()) for bar in axes.patches if hasattr(bar, "get_height")}
        plt.close(figure)
    shown = {"throughput_bps": 1e6, "mean_bps": 1e6, "seconds": 1.0}
    for row in rows:
        values = [row[key] / unit for key, unit in shown.items() if key in row]
        assert not values or any(value in drawn for value in values), row


def test_random_placements_have_all_their_nodes_and_the_seed_repeats_them() -> None:
    points = [point for point in placements.points(False, 1) if point["draws"] is None]
    assert len(points) == 53 * 17
    for point in points:
        counts = [int(count) for count in point["allocation"].split("-")]
        assert sum(counts) == point["nodes"] and len(counts) == 8 and max(counts) <= 4
    assert len({point["allocation"] for point in points if point["nodes"] == 16}) > 40
    assert placements.points(False, 1) == placements.points(False, 1) != placements.points(False, 2)
    written = {
        (p["nodes"], p["placement"]): p["allocation"] for p in placed_writes.points(False, 1)
    }
    assert written.items() <= {((p["nodes"], p["placement"]), p["allocation"]) for p in points}


def test_prediction_of_a_placement_needs_no_switch() -> None:
    point = next(p for p in placements.points(True, 1) if p["nodes"] == 8)
    found = placements.measure(point)
    assert 0 < found["predicted_bps"] <= found["liquid_bps"] and 1 < found["liquid_links"] <= 8


def test_first_placements_are_spread_over_the_sizes() -> None:
    first = placed_writes.points(False, 1)[:8]
    assert {point["nodes"] for point in first} == {8, 16, 24, 31} and {
        point["placement"] for point in first
    } == {0}


def test_pairs_of_processes_share_a_node_where_they_are_placed_at_random() -> None:
    placed = place(load_network("swiss-t1"), 12, 12, order="random", seed=5)
    assert [name[1:] for name in placed.compute] == [name[1:] for name in placed.io]
    assert len(set(placed.compute)) == 12 and list(placed.compute) != sorted(placed.compute)
    other = place(load_network("swiss-t1"), 12, 12, order="random", seed=6)
    assert set(other.compute) != set(placed.compute)


def test_swiss_t1_nodes_are_spread_over_switches_in_pairs() -> None:
    assert swiss_t1.allocation(8) == "4-4-0-0-0-0-0-0"
    assert swiss_t1.allocation(16) == "4-4-4-4-0-0-0-0"
    assert swiss_t1.allocation(18) == "3-3-3-3-3-3-0-0"
    assert swiss_t1.allocation(26) == "4-4-3-3-3-3-3-3"
    links = {nodes: placements.ordered_links(nodes) for nodes in range(2, 33, 2)}
    growth = {(n, n + 2): links[n + 2] / links[n] for n in links if n + 2 in links}
    assert {pair for pair, factor in growth.items() if factor > 1.25} == set(placements.STEPS)


def random_halves(carried: float, steps: float = 1.0) -> Rows:
    """Draws of nodes at random, each with `carried` of its liquid throughput; `steps`: of how much the three add."""
    found = []
    for point in swiss_t1.points(False, 1):
        if "draw" in point:
            half, switches = (
                point["nodes"] // 2,
                [node // 4 for node in swiss_t1.taken_nodes(point)],
            )
            liquid = 5e6 * placements.half_links(switches[:half], switches[half:])
            liquid *= steps ** sum(point["nodes"] >= after for _, after in placements.STEPS)
            found.append(
                {
                    **point,
                    "throughput_bps": carried * liquid,
                    "liquid_bps": liquid,
                    "verified": True,
                }
            )
    return found


@pytest.mark.parametrize(
    ("drawn", "words"),
    [
        (random_halves(0.99), ""),
        (random_halves(0.99, steps=1.8), "product of the three steps"),
        (random_halves(0.6), "over liquid throughput, worst draw"),
    ],
)
def test_nodes_at_random_are_judged_beside_the_fitted_allocation(drawn: Rows, words: str) -> None:
    rows = [*rows_of(swiss_t1), *drawn]
    assert (
        len(drawn) == 30
        and words in failed(swiss_t1.judge(rows))
        and (words or not failed(swiss_t1.judge(rows)))
    )
    lines = swiss_t1.figures(rows)["halves"].axes[0].get_lines()
    shown = {round(float(y), 6) for line in lines for y in line.get_ydata()}
    assert {round(row["throughput_bps"] / 1e6, 6) for row in drawn} <= shown


def test_larger_requests_per_pair_write_a_file_of_at_most_2_gigabytes() -> None:
    points = crossbar.points(False, 1, crossbar.Options(pair_bytes=10_000_000, repetitions=2))
    striped = [point for point in points if "pair_bytes" in point]
    assert {p["nodes"]: p["pair_bytes"] for p in striped if p["nodes"] in (12, 14, 31)} == {
        12: 10_000_000, 14: 10_000_000, 31: 2_000_000_000 // 961
    }  # fmt: skip
    assert {point["repetitions"] for point in striped} == {1, 2}
    plain = [point for point in points if point not in striped]
    assert plain == [point for point in crossbar.points(False, 1) if "pair_bytes" not in point]


def test_both_processors_of_a_node_share_its_link_and_a_fall_would_be_seen() -> None:
    shared = [point for point in crossbar.points(False, 1) if point["series"] == "striped-one-link"]
    assert [point["nodes"] for point in shared] == list(crossbar.FULL.one_link)
    network = load_network("fat-tree:12,1")
    placed = place(network, 12, 12)
    assert (
        set(placed.compute) == set(placed.io)
        and len(placed.remote) == 12 * 11
        and len(network.switches) == 1
    )
    for at_31, words in (
        (4e7, ""),
        (1e8, "one link for both processors: average throughput at 31 nodes over that at 12"),
    ):
        speeds = dict.fromkeys(crossbar.FULL.one_link, 40000000.0) | {31: at_31}
        rows = [*rows_of(crossbar)]
        for point in shared:
            bps = speeds[point["nodes"]]
            rows.append(
                {**point, "throughput_bps": bps, "mean_bps": bps, "peak_bps": bps, "verified": True}
            )
        assert words in failed(crossbar.judge(rows))
        assert ("one link" in failed(crossbar.judge(rows))) is bool(words)


def test_halves_of_the_nodes_send_to_the_other_half() -> None:
    pairs = swiss_t1.halves(placements.filled_in_pairs(10))
    assert len(pairs) == 25 and len({a for a, _ in pairs}) == len({b for _, b in pairs}) == 5
    assert not {a[1:] for a, _ in pairs} & {b[1:] for _, b in pairs}


def test_more_placements_than_the_document_measured_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit, match="2"):
        run_study(placed_writes.STUDY, ["--placements", "54"])
    assert "1 to 53" in capsys.readouterr().err


def test_folder_of_a_killed_study_is_removed_by_the_next_and_locked_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = tmp_path / ".subfiles-left"
    left.mkdir()
    os.utime(left, (0, 0))

    def stop(plan: Any, root: Path) -> None:
        handle = os.open(root, os.O_RDONLY)
        with pytest.raises(
            BlockingIOError
        ):  # else another command would take it for a killed one's
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(handle)
        raise KeyboardInterrupt

    monkeypatch.setattr("testbed.striping.workload.run_striping", stop)
    options = {"compute_nodes": 2, "io_nodes": 2, "file_bytes": 40_000}
    with pytest.raises(KeyboardInterrupt):
        measure_access("crossbar:4", {}, folder=tmp_path, **options)
    assert list(tmp_path.iterdir()) == []


def test_an_access_that_failed_as_a_whole_is_reported_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = ClientError(
        rank=1, node="p1", text="r0 was silent for 120 s", after_s=1.0, since_fault_s=0.0
    )
    record = OperationRecord(
        direction="write", attempt=1, under_faults=False, seconds=1.0, bytes=0, messages=1, fragments=1, requests=1,
        disk_calls=1, verified=False, errors=(error,),
    )  # fmt: skip
    ended = StripingMeasurements(fabric="emulation", operations=(record,), mtu_bytes=9000)
    monkeypatch.setattr("testbed.striping.workload.run_striping", lambda plan, root: ended)
    with pytest.raises(
        InvalidRunError,
        match=r"crossbar:4: no access .* came to its end .p1: r0 was silent for 120 s.",
    ):
        measure_access(
            "crossbar:4", {}, folder=tmp_path, compute_nodes=2, io_nodes=2, file_bytes=40_000
        )


@EACH_PUBLISHED
def test_a_run_with_figures_that_no_run_has_makes_a_study_invalid(study: Any) -> None:
    rows = rows_of(study)
    assert study.judge(rows).invalid is None
    figures = ("slowest_bps", "throughput_bps", "mean_bps", "predicted_bps", "cpu_fraction")
    for name in [
        name
        for name in figures
        if rows[0].get(name) and ("peak_bps" in rows[0] or name == "cpu_fraction")
    ]:
        verdict = study.judge(spoilt(rows, 0, lambda row, name=name: {name: 1000 * row[name]}))  # type: ignore[misc]
        assert "more than there can be" in str(verdict.invalid), name
    if rows[-1].get("frames"):
        assert "deadlocks is 3" in str(
            study.judge(spoilt(rows, -1, lambda _: {"deadlocks": 3})).invalid
        )
