"""Failure traces: three formats, broken rows, synthetic traces, and the link faults made from them."""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from testbed.errors import InputError
from testbed.faults.cable_faults import (
    SHAPES,
    cable_fault,
    check_faults,
    faults_from_trace,
    leaves_connected,
    random_faults,
    shape_faults,
    shape_walk,
    switch_cables,
)
from testbed.faults.failure_traces import (
    KNOWN_STATISTICS,
    FailureTrace,
    NetworkFailure,
    generate_trace,
    parse_fta_events,
    parse_lanl_table,
    parse_pnnl_table,
)
from testbed.results.trace_files import read_lines, read_trace
from tests.helpers.failure_samples import (
    measure_statistics,
    sample_lanl_table,
    sample_trace,
    write_fta_events,
    write_lanl_table,
    write_pnnl_table,
)
from tests.helpers.trace_counts import choose_causes, count_causes
from topologies import load_network

TRACES = Path(os.environ.get("TESTBED_TRACES", ""))
needs_traces = pytest.mark.skipif(
    "TESTBED_TRACES" not in os.environ, reason="TESTBED_TRACES names no folder of public traces"
)

LANL = [
    "System,nodenum,Prob Started,Prob Fixed,Hardware,Network\n",
    "7,3,6/21/2005 10:54,6/21/2005 11:00,Interconnect Cable,\n",
    "7,4,6/22/2005 10:00,6/22/2005 12:00,Disk Drive,\n",
    "7,5,6/23/2005 10:00,6/23/2005 12:00,,Network\n",
    "8,5,6/23/2005 10:00,6/23/2005 12:00,Interconnect Switch,\n",
]
FTA = [
    "event_id component_id node_id platform_id node_name event_type event_start_time event_stop_time "
    "event_end_reason\n",
    "0 0 1 3 12.007 1 100 200 3001\n",
    "1 0 1 3 12.007 0 200 260 8000\n",
    "2 0 1 3 12.007 1 260 900 1\n",
    "3 0 2 3 12.008 1 100 300 4000\n",
    "4 0 2 3 12.008 0 300 400 8000\n",
    "5 0 9 3 13.001 1 100 300 3999\n",
]
PNNL = [
    "Date,Hardware Identifier,What Failed,Description of Failure,Action Taken\n",
    "11/29/2003 7:00,node 13,DISK,I/O error,REPLACE\n",
    "12/1/2003,node 604,ELAN3,bad,REPLACE\n",
    '12/4/2003 7:00,Quadrics 1,QSW,"two\nlines",NONE\n',
    "1/4/2008 7:00,node 1,ELAN4,later,NONE\n",
]


@pytest.mark.parametrize(
    ("rule", "rows"), [("interconnect-hardware", [2]), ("network-column", [4]), ("either", [2, 4])]
)
def test_lanl_rows_count_by_the_rule_given(rule: str, rows: list[int]) -> None:
    trace = parse_lanl_table(LANL, "7", rule=rule)
    assert [failure.row for failure in trace.failures] == rows
    assert trace.rule == rule
    assert trace.span_s == 2 * 86_400 + 3600 + 6 * 60


def test_fta_failure_is_an_available_period_that_a_network_reason_ended() -> None:
    trace = parse_fta_events(FTA, "12")
    assert [(f.component, f.start_s, f.end_s, f.row) for f in trace.failures] == [
        ("007", 200.0, 260.0, 2)
    ]


def test_pnnl_failures_have_no_end_and_stop_where_told() -> None:
    joined = "".join(PNNL).splitlines(keepends=True)
    trace = parse_pnnl_table(joined)
    assert [(f.component, f.end_s) for f in trace.failures] == [
        ("node 604", None),
        ("quadrics 1", None),
    ]
    moved = [row.replace("1/4/2008", "9/30/2007") for row in joined]
    assert len(parse_pnnl_table(moved).failures) == 3


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (
            "7,9,next week,6/21/2005 11:00,Interconnect Cable,\n",
            "row 6: Prob Started 'next week' is not a date",
        ),
        (
            "7,9,6/21/2005 11:00,6/21/2005 10:00,Interconnect Cable,\n",
            "row 6: it is repaired before it fails",
        ),
        ("7,9,6/21/2005 11:00\n", "row 6: it ends before the column 'Prob Fixed'"),
    ],
)
def test_a_broken_lanl_row_is_named_or_skipped_and_counted(row: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        parse_lanl_table([*LANL, row], "7")
    assert parse_lanl_table([*LANL, row], "7", skip_bad_rows=True).bad_rows == (6,)


@pytest.mark.parametrize(
    "row",
    ["6 0 1 3 12.007 1 900\n", "6 0 1 3 12.007 7 900 950 1\n", "6 0 1 3 12.007 1 soon 950 1\n"],
)
def test_a_broken_fta_row_is_named_or_skipped_and_counted(row: str) -> None:
    with pytest.raises(InputError, match="row 8: "):
        parse_fta_events([*FTA, row], "12")
    assert parse_fta_events([*FTA, row], "12", skip_bad_rows=True).bad_rows == (8,)


def test_a_broken_pnnl_row_is_named_or_skipped_and_counted() -> None:
    with pytest.raises(InputError, match="row 2: Date 'yesterday' is not a date"):
        parse_pnnl_table([PNNL[0], "yesterday,node 1,ELAN4,x,y\n", *PNNL[1:3]])
    assert parse_pnnl_table(
        [PNNL[0], "yesterday,node 1,ELAN4,x,y\n", *PNNL[1:3]], skip_bad_rows=True
    ).bad_rows == (2,)


def test_an_unknown_system_is_answered_by_those_there_are() -> None:
    with pytest.raises(InputError, match="no rows of system '9'; it has 7, 8"):
        parse_lanl_table(LANL, "9")


def test_a_file_is_read_by_its_own_format(tmp_path: Path) -> None:
    for name, lines, count in (("a.csv", LANL, 1), ("b.tab", FTA, 1), ("c.csv", PNNL, 2)):
        text = "".join(lines)
        plain, packed = tmp_path / name, tmp_path / f"{name}.gz"
        plain.write_text(text)
        packed.write_bytes(gzip.compress(text.encode()))
        system = {"a.csv": "7", "b.tab": "12"}.get(name)
        assert read_trace(plain, system=system) == read_trace(packed, system=system)
        assert len(read_trace(plain, system=system).failures) == count
    (tmp_path / "d.txt").write_text("hello\n")
    with pytest.raises(InputError, match="not an LANL, FTA or PNNL table"):
        read_trace(tmp_path / "d.txt")


@pytest.mark.parametrize("lines", [LANL, PNNL])
@pytest.mark.parametrize(
    ("sign", "encoding"), [(";", "utf-8-sig"), ("\t", "utf-16"), (",", "utf-8-sig")]
)
def test_a_table_that_a_spreadsheet_wrote_is_read(
    lines: list[str], sign: str, encoding: str, tmp_path: Path
) -> None:
    plain, written = tmp_path / "plain.csv", tmp_path / "written.csv"
    plain.write_text("".join(lines))
    with written.open("w", encoding=encoding, newline="") as file:
        csv.writer(file, delimiter=sign, quoting=csv.QUOTE_ALL).writerows(
            csv.reader("".join(lines).splitlines(True))
        )
    assert read_trace(written, system="7") == read_trace(plain, system="7")


@pytest.mark.parametrize(
    ("file_name", "write"),
    [
        ("table.csv.gz", write_lanl_table),
        ("events.tab.gz", write_fta_events),
        ("failures.csv.gz", write_pnnl_table),
    ],
)
def test_tables_give_back_the_failures_that_were_drawn(
    file_name: str, write: Callable[[FailureTrace], list[str]], tmp_path: Path
) -> None:
    system = None if write is write_pnnl_table else "12"
    drawn = generate_trace(KNOWN_STATISTICS["lanl-12"], seed=3, name="12")
    (tmp_path / file_name).write_bytes(gzip.compress("".join(write(drawn)).encode()))
    read = read_trace(tmp_path / file_name, system=system)
    assert len(read.failures) == len(drawn.failures) == 52
    assert len({each.component for each in read.failures}) == len(
        {each.component for each in drawn.failures}
    )
    for found, expected in zip(read.failures, drawn.failures, strict=True):
        since_s = expected.start_s - drawn.failures[0].start_s
        assert found.start_s - read.failures[0].start_s == pytest.approx(since_s, abs=60)


@needs_traces
def test_public_traces_give_the_counts_stated_with_their_rules() -> None:
    lanl = {
        s: len(read_trace(TRACES / "lanl.csv.gz", system=s).failures) for s in ("12", "18", "19")
    }
    fta = {
        s: len(read_trace(TRACES / "fta_lanl_event_trace.tab.gz", system=s).failures)
        for s in ("12", "18", "19")
    }
    assert lanl == {"12": 52, "18": 28, "19": 58}
    assert fta == {"12": 21, "18": 76, "19": 97}
    assert len(read_trace(TRACES / "pnnl2007.csv.gz").failures) == 167


@needs_traces
def test_the_statistics_kept_are_those_of_the_public_traces() -> None:
    for name, system in (
        ("lanl-12", "12"),
        ("lanl-18", "18"),
        ("lanl-19", "19"),
        ("pnnl-mpp2", None),
    ):
        kept = KNOWN_STATISTICS[name]
        file = TRACES / ("lanl.csv.gz" if system else "pnnl2007.csv.gz")
        found = measure_statistics(read_trace(file, system=system), nodes=kept.nodes)
        assert (found.failures, found.components) == (kept.failures, kept.components)
        assert found.span_s == pytest.approx(kept.span_s, rel=1e-4)
        assert found.gap_variation == pytest.approx(kept.gap_variation, rel=1e-2)
        assert (found.outage_median_s is None) == (kept.outage_median_s is None)
        if kept.outage_median_s and kept.outage_log_deviation:
            assert found.outage_median_s == pytest.approx(kept.outage_median_s, rel=1e-3)
            assert found.outage_log_deviation == pytest.approx(kept.outage_log_deviation, rel=1e-2)


@pytest.mark.parametrize("name", sorted(KNOWN_STATISTICS))
def test_a_generated_trace_has_the_statistics_asked_for(name: str) -> None:
    wanted = KNOWN_STATISTICS[name]
    found = [
        measure_statistics(generate_trace(wanted, seed=s), nodes=wanted.nodes) for s in range(60)
    ]
    assert {(f.failures, f.components, f.span_s) for f in found} == {
        (wanted.failures, wanted.components, wanted.span_s)
    }
    assert np.median([f.gap_variation for f in found]) == pytest.approx(
        wanted.gap_variation, rel=0.2
    )
    if wanted.outage_median_s is not None:
        medians = [f.outage_median_s for f in found]
        assert np.median(np.array(medians, dtype=float)) == pytest.approx(
            wanted.outage_median_s, rel=0.25
        )


def test_the_sample_is_a_table_that_the_parser_reads() -> None:
    trace = sample_trace()
    assert len(trace.failures) == 20 and len({f.component for f in trace.failures}) == 15
    assert write_lanl_table(trace) == sample_lanl_table()


def test_a_trace_is_scaled_to_simulated_time_on_cables_of_the_network() -> None:
    network, trace = load_network("torus:8x8"), sample_trace()
    faults = faults_from_trace(network, trace, simulated_s=2.0, seed=1)
    assert len(faults) == 20 and {f.ends for f in faults} <= set(switch_cables(network))
    assert all(0 <= f.start_s < f.stop_s < math.inf for f in faults)
    first = trace.failures[0]
    assert first.end_s is not None
    length = (first.end_s - first.start_s) / trace.span_s * 2.0
    assert faults[0].stop_s - faults[0].start_s == pytest.approx(length)


def test_a_trace_of_half_a_second_is_scaled_as_one_of_years() -> None:
    network, trace = load_network("torus:8x8"), sample_trace()
    shrunk = [
        (moment - trace.start_s) * 0.5 / trace.span_s
        for f in trace.failures
        for moment in (f.start_s, f.end_s or 0)
    ]
    failures = tuple(
        replace(f, start_s=start_s, end_s=None if f.end_s is None else end_s)
        for f, start_s, end_s in zip(trace.failures, shrunk[::2], shrunk[1::2], strict=True)
    )
    short = replace(trace, failures=failures, start_s=0.0, end_s=0.5)
    wanted, found = (
        faults_from_trace(network, one, simulated_s=2.0, seed=1) for one in (trace, short)
    )
    assert [f.ends for f in found] == [f.ends for f in wanted]
    assert [f.start_s for f in found] == pytest.approx([f.start_s for f in wanted], abs=1e-6)


def test_permanent_trace_faults_keep_the_network_connected_or_are_refused() -> None:
    network = load_network("torus:8x8")
    trace = generate_trace(KNOWN_STATISTICS["lanl-19"], seed=1)
    faults = faults_from_trace(network, trace, simulated_s=1.0, seed=3, permanent=True)
    assert all(f.permanent for f in faults) and leaves_connected(network, [f.ends for f in faults])
    with pytest.raises(InputError, match="take a larger network"):
        faults_from_trace(load_network("torus:3x3"), trace, simulated_s=1.0, seed=3, permanent=True)


def test_random_faults_are_different_cables_that_leave_the_switches_joined() -> None:
    for name, count in (("torus:8x8", 12), ("fat-tree:4,3", 12), ("ring:8", 1)):
        network = load_network(name)
        faults = random_faults(network, count, seed=5)
        assert len({f.ends for f in faults}) == count
        assert leaves_connected(network, [f.ends for f in faults])
        assert all("h" not in "".join(f.ends) for f in faults)
    with pytest.raises(InputError, match="no draw in 1000"):
        random_faults(load_network("ring:8"), 2, seed=1)


def test_transient_faults_begin_and_last_within_what_was_asked() -> None:
    faults = random_faults(
        load_network("torus:8x8"), 10, seed=2, start_s=(0.0, 2.0), duration_s=(0.0, 0.2)
    )
    assert all(0 <= f.start_s < 2 and f.stop_s - f.start_s <= 0.2 for f in faults)


def test_a_fault_on_a_link_that_does_not_exist_is_refused() -> None:
    network = load_network("torus:4x4")
    for first, second, words in (
        (
            "s0_0",
            "s2_0",
            "no such link between switches; s0_0 is joined to s0_1, s0_3, s1_0, s3_0$",
        ),
        ("s0_0", "h0_0", "no such link between switches"),
        ("s0_0", "s9_9", "has no node 's9_9'"),
    ):
        with pytest.raises(InputError, match=words):
            check_faults(network, [cable_fault((first, second))])


def test_overlapping_faults_of_one_cable_are_one() -> None:
    network = load_network("torus:4x4")
    faults = check_faults(
        network,
        [
            cable_fault(("s0_1", "s0_0"), start_s=1.0, stop_s=2.0),
            cable_fault(("s0_0", "s0_1"), start_s=1.5, stop_s=3.0),
            cable_fault(("s0_0", "s0_1"), start_s=4.0, stop_s=5.0),
            cable_fault(("s0_0", "s0_1"), start_s=5.0),
        ],
    )
    assert [(f.ends[0], f.start_s, f.stop_s) for f in faults] == [
        ("s0_0", 1.0, 3.0),
        ("s0_0", 4.0, math.inf),
    ]


def test_outages_of_no_length_last_a_microsecond() -> None:
    failure = NetworkFailure(component="n", start_s=5.0, end_s=5.0, row=1)
    trace = FailureTrace(system="1", failures=(failure,), start_s=0.0, end_s=10.0, rule="made up")
    (fault,) = faults_from_trace(load_network("torus:4x4"), trace, simulated_s=1.0, seed=1)
    assert fault.start_s == 0.5 and fault.stop_s == pytest.approx(0.5 + 1e-6, abs=1e-12)


@pytest.mark.parametrize(("reason", "counts"), [(2999, 0), (3000, 1), (3999, 1), (4000, 0)])
def test_reasons_of_the_network_are_the_three_thousands(reason: int, counts: int) -> None:
    lines = [FTA[0], f"0 0 1 3 12.007 1 100 200 {reason}\n", FTA[2]]
    assert len(parse_fta_events(lines, "12").failures) == counts


@pytest.mark.parametrize(("shape", "links"), [("line", 4), ("square", 16), ("L", 8), ("U", 12)])
def test_a_shape_fails_the_cables_along_its_walk_and_cuts_nobody_off(
    shape: str, links: int
) -> None:
    network = load_network("torus:8x8")
    for seed in range(5):
        faults = shape_faults(network, shape, size=4, seed=seed)
        assert len(faults) == links and leaves_connected(network, [f.ends for f in faults])
    assert len(shape_walk(shape, 4)) == links + 1
    assert set(SHAPES) == {"line", "square", "L", "U"}


def test_a_shape_needs_a_torus_that_it_fits_in() -> None:
    with pytest.raises(InputError, match="is no 2-D torus"):
        shape_faults(load_network("mesh:8x8"), "L", size=2)
    with pytest.raises(InputError, match="do not fit"):
        shape_faults(load_network("torus:4x4"), "line", size=4)
    with pytest.raises(InputError, match="is unknown"):
        shape_faults(load_network("torus:4x4"), "T", size=2)


def test_a_choice_of_causes_counts_the_same_rows_on_every_system() -> None:
    header = "System,Facilities,Hardware,Human Error,Network,Undetermined,Software\n"
    causes = {"a": (2, 1), "b": (3, 0), "c": (0, 4)}
    lines = [header] + [
        f"{s},,{c},,,,\n"
        for c, n in causes.items()
        for s, k in zip("12", n, strict=True)
        for _ in range(k)
    ]
    counts = count_causes(lines, ("1", "2"))
    assert counts == {("Hardware", c): list(n) for c, n in causes.items()}
    assert choose_causes(counts, (5, 1)) == [("Hardware", "a"), ("Hardware", "b")]
    assert choose_causes(counts, (2, 4)) is None


@needs_traces
def test_no_choice_of_network_causes_reproduces_the_documents_counts() -> None:
    lines = read_lines(TRACES / "lanl.csv.gz")
    words = ("network", "interconnect", "switch", "cable", "ethernet", "interface")
    counts = count_causes(lines, ("12", "18", "19"), words=words)
    assert len(counts) == 20
    assert choose_causes(counts, (52, 28, 58)) == [
        ("Hardware", f"Interconnect {part}")
        for part in ("Cable", "Interface", "Soft Error", "Switch")
    ]
    assert choose_causes(counts, (52, 62, 58)) is None
