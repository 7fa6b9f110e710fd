"""FT-DRB on real switches: a cut is escaped within 50 ms, a silent blackhole found by missing ACKs, and the stream
returns."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.warm import TESTBED, run

pytestmark = pytest.mark.emulation


def _run(kind: str, notify: str) -> dict[str, Any]:

    from testbed.errors import InvalidRunError
    from testbed.faults.fault import Fault
    from testbed.metapath.emulated.fabric import run_metapath_stream
    from testbed.metapath.judgement import judge_metapaths
    from testbed.metapath.options import MetapathOptions
    from testbed.metapath.plan import MetapathPlan
    from topologies import load_network

    fault: Any = Fault(link=("s1_0", "s2_0", 0), kind=kind, start_s=0.6, stop_s=1.4)  # type: ignore[arg-type]
    plan = MetapathPlan(
        network=load_network("torus:4x4"),
        source="s0_0",
        sink="s2_1",
        faults=(fault,),
        duration_s=2.2,
        options=MetapathOptions(notify=notify),  # type: ignore[arg-type]
    )
    run = run_metapath_stream(plan)
    invalid = judge_metapaths(plan, run).verdict.invalid
    if invalid is not None:
        raise InvalidRunError(invalid)
    times, lost = run.faults[0], run.deliveries.lost
    whole = set(run.sent.message[~lost].tolist())
    missing = [m for m in range(int(run.sent.message.max()) + 1) if m not in whole]
    sent_at = run.sent.time_s[run.sent.copy == 0]
    own = run.sent.copy == 0
    return {
        "lost_s": [float(sent_at[m]) - times.start_s for m in missing],
        "escaped": int((run.received.dead_link >= 0).sum()),
        "paths_in_fault": sorted(
            set(run.sent.path[own & (run.sent.time_s > 1.2) & (run.sent.time_s < 1.4)].tolist())
        ),
        "last_paths": sorted(set(run.sent.path[run.sent.time_s > 1.9].tolist())),
        "marked": sorted({e.cause for e in run.events if e.kind == "marked"}),
        "port_status": times.port_status_s is not None,
    }


def test_a_cut_is_escaped_within_50_ms_and_told_by_the_header_alone(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        found = sandboxed(_run, "down", "header")
        assert found["escaped"] >= 5
        assert "header" in found["marked"]
        if found["marked"] != ["header"]:
            return f"packets that the machine lost marked cables, too: {found['marked']}"
        return late(found, 0.05)

    timely(run)


def test_a_silent_blackhole_is_found_by_missing_acknowledgements(
    sandboxed: Callable[..., Any], timely: Callable[..., None]
) -> None:
    def run() -> str | None:
        found = sandboxed(_run, "blackhole", "both")
        assert found["marked"] == ["silence"] and not found["port_status"] and not found["escaped"]
        assert found["lost_s"]
        assert 0 not in found["paths_in_fault"]
        return late(found, 0.3)

    timely(run)


def late(found: dict[str, Any], limit_s: float) -> str | None:
    """What happened after its time: a loss after the fault, the return to the minimal path after it was mended."""
    slowest = max(found["lost_s"], default=0.0)
    if slowest >= limit_s:
        return f"a packet was lost {slowest:.3f} s after the fault, limit {limit_s:g} s"
    return (
        None
        if found["last_paths"] == [0]
        else f"0.5 s after the fault the stream was on paths {found['last_paths']}"
    )


def test_command_streams_over_a_recomputed_route_and_redraws_its_page(
    tmp_path: Path, valid_run: Callable[..., Any]
) -> None:
    ends = ["torus:4x4", "--from", "s0_0", "--to", "s2_0", "--max-faults", "1"]
    words = [*TESTBED, "stream", *ends, "--routing", "recomputed", "--json", "--results"]
    words.append(str(tmp_path))
    done = valid_run(lambda: run(words, capture_output=True, text=True, timeout=120, check=False))
    assert done.returncode == 0, (done.stdout[-2000:], done.stderr)
    document = json.loads(done.stdout)
    (fault,) = document["per_fault"]
    assert document["routing"] == "recomputed" and fault["kind"] == "down"
    assert 0 < fault["lost"] < 0.25 * fault["sent"] and fault["lost_after_reroute"] == 0
    directory = Path(document["results"])
    drawing = directory / "figure-s0_0->s1_0-down.svg"
    before = drawing.read_text()
    drawing.unlink()
    report = [*TESTBED, "report", str(directory)]
    assert run(report, capture_output=True, timeout=60, check=False).returncode == 0
    assert drawing.read_text() == before
