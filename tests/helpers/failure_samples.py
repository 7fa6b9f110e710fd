"""Failure traces for tests: the statistics of a trace, and its table in each of the three formats."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from testbed.faults.failure_traces import (
    MIN_OUTAGE_S,
    FailureTrace,
    TraceStatistics,
    generate_trace,
    parse_lanl_table,
)


def measure_statistics(trace: FailureTrace, *, nodes: int) -> TraceStatistics:
    """The statistics of a trace, of three failures at least, of a machine of so many nodes."""
    gaps = np.diff([failure.start_s for failure in trace.failures])
    outages = [
        max(f.end_s - f.start_s, MIN_OUTAGE_S) for f in trace.failures if f.end_s is not None
    ]
    return TraceStatistics(
        nodes=nodes,
        failures=len(trace.failures),
        components=len({failure.component for failure in trace.failures}),
        span_s=trace.span_s,
        gap_variation=float(gaps.std() / gaps.mean()),
        outage_median_s=float(np.median(outages)) if outages else None,
        outage_log_deviation=float(np.std(np.log(outages))) if outages else None,
    )


def sample_trace() -> FailureTrace:
    """A small synthetic trace that needs no file: 20 failures of 64 nodes in a year, read from an LANL table."""
    return parse_lanl_table(sample_lanl_table(), "1")


def sample_lanl_table() -> list[str]:
    """The lines of a small synthetic table in the LANL format."""
    statistics = TraceStatistics(
        nodes=64,
        failures=20,
        components=15,
        span_s=365 * 86_400.0,
        gap_variation=1.7,
        outage_median_s=4000.0,
        outage_log_deviation=1.2,
    )
    return write_lanl_table(generate_trace(statistics, seed=1, name="1"))


def write_lanl_table(trace: FailureTrace) -> list[str]:
    """A trace as lines of the LANL format (the columns that matter; times to the minute)."""
    lines = ["System,nodenum,Prob Started,Prob Fixed,Hardware,Network\n"]
    for failure in trace.failures:
        fixed = "" if failure.end_s is None else _written(failure.end_s)
        words = [
            trace.system,
            failure.component,
            _written(failure.start_s),
            fixed,
            "Interconnect Interface",
            "",
        ]
        lines.append(",".join(words) + "\n")
    return lines


def write_fta_events(trace: FailureTrace) -> list[str]:
    """Return the trace as events of the Failure Trace Archive: the up time before each failure, and the outage."""
    lines = [
        "event_id component_id node_id platform_id node_name event_type event_start_time "
        "event_stop_time event_end_reason\n"
    ]
    up_s: dict[str, int] = {}
    for number, failure in enumerate(trace.failures):
        start_s = round(failure.start_s)
        end_s = start_s + 1 if failure.end_s is None else max(round(failure.end_s), start_s + 1)
        node = f"0 0 3 {trace.system}.{failure.component}"
        before_s = min(up_s.get(failure.component, start_s - 1), start_s - 1)
        lines.append(f"{2 * number} {node} 1 {before_s} {start_s} 3001\n")
        lines.append(f"{2 * number + 1} {node} 0 {start_s} {end_s} 8000\n")
        up_s[failure.component] = end_s
    return lines


def write_pnnl_table(trace: FailureTrace) -> list[str]:
    """Return the trace as lines of the PNNL table, in which failures have no end."""
    lines = ["Date,Hardware Identifier,What Failed,Description of Failure,Action Taken\n"]
    for failure in trace.failures:
        written = _written(failure.start_s)
        lines.append(f"{written},node {failure.component},ELAN3,bad,REPLACE\n")
    return lines


def _written(moment_s: float) -> str:
    at = datetime.fromtimestamp(moment_s, tz=UTC)
    return f"{at.month}/{at.day}/{at.year} {at.hour}:{at.minute:02d}"
