"""Measures FT-DRB's cost without failures, and whether it needs NAC with them (Zarza 2011, 5.3).

Without failures it is compared with dimension order. With loads and failures under which it
deadlocks without NAC, it should deliver all messages with NAC (5.6.7 and chapter 4). The design
alternatives of section 3.6 are run side by side.
"""

from collections.abc import Mapping
from dataclasses import replace

from experiments.interconnect.runs import measure_run
from experiments.interconnect.samples import at_most, delivery_check
from experiments.interconnect.study_points import (
    LINK_BPS,
    LINK_PACKETS_PER_S,
    drb_point,
    seeds_of,
)
from testbed.model.studies import (
    Check,
    Claim,
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    Verdict,
    grouped,
    mean_of,
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_bars

NETWORK = "torus:8x8"

# Messages of 512 bytes per second and node in part "deadlock".
BUSY_RATE = 0.6 * LINK_PACKETS_PER_S
BUSY_FAULTS = 8
BUSY_S = 0.002

# In part "torus" every node offers four fifths of its link, with packets of 2 KB.
FULL_TORUS_S = 0.06
FULL_TORUS_BYTES = 2048

ACK_BYTES = 64
MESSAGE_BYTES = 512

DEFAULTS = "defaults"

# Alternatives of which the document says that they improve performance.
IMPROVEMENTS = ("notifications reused", "queued sources notified")

# Options of FT-DRB by design alternative (3.6).
ALTERNATIVES: Mapping[str, Row] = {
    DEFAULTS: {},
    "destination notifies": {"notifier": "destination"},
    "notifications reused": {"reuse_notifications": True},
    "queued sources notified": {"notify_queued": True},
    "router tells link up": {"link_up": "router"},
    "probes by clock": {"probing": "clock"},
    "probes hybrid": {"probing": "hybrid"},
    "marked by clock": {"marking": "clock"},
    "marked hybrid": {"marking": "hybrid"},
}


def points(quick: bool, seed: int) -> Points:
    """Return the points.

    Part "cost" has dimension order and FT-DRB without failures. Part "deadlock" has FT-DRB without
    and with NAC. Part "torus" has dimension order with NAC. Part "alternatives" has the options of
    section 3.6.
    """
    result = []
    for run_seed in seeds_of(seed, quick, few=3):
        for settings in _settings(quick=quick):
            part = settings.pop("part")
            design = settings.pop("design", None)
            point = drb_point(NETWORK, "uniform", run_seed, quick=quick, **settings)
            point["part"] = part
            if design is not None:
                point["design"] = design
            result.append(point)
    return result


def _settings(*, quick: bool) -> Points:
    """Return the settings of the points of one seed."""
    result: Points = []
    for routing in ("dor", "ft-drb"):
        result.append({"part": "cost", "routing": routing})
    for deadlock in ("none", "nac"):
        busy: Results = {
            "part": "deadlock",
            "deadlock": deadlock,
            "faults": BUSY_FAULTS,
            "fault_kind": "start",
            "rate": BUSY_RATE,
            "seconds": BUSY_S,
        }
        result.append(busy)
    full_torus: Results = {
        "part": "torus",
        "routing": "dor",
        "bytes": FULL_TORUS_BYTES,
        "buffer_bytes": 2 * FULL_TORUS_BYTES,
        "rate": 0.8 * LINK_BPS / (8 * FULL_TORUS_BYTES),
        "seconds": FULL_TORUS_S / 10 if quick else FULL_TORUS_S,
    }
    result.append(full_torus)
    for design, options in ALTERNATIVES.items():
        alternative: Results = {
            "part": "alternatives",
            "design": design,
            "faults": 10,
            "fault_kind": "transient",
            "options": dict(options),
        }
        result.append(alternative)
    return result


def judge(rows: Rows) -> Verdict:
    """Check that FT-DRB costs nothing without failures, and needs NAC with them."""
    bare = where(rows, part="deadlock", deadlock="none")
    with_nac = where(rows, part="deadlock", deadlock="nac")
    all_but_bare = [row for row in rows if row not in bare]
    delivered = replace(
        delivery_check(all_but_bare), name="sent = received in every run but those without NAC"
    )
    checks = [
        *_fault_free_checks(where(rows, part="cost")),
        *_nac_checks(bare, with_nac),
        _full_torus_check(where(rows, part="torus")),
    ]
    alternatives = where(rows, part="alternatives")
    for design in IMPROVEMENTS:
        checks.append(_improvement_check(alternatives, design))
    checks.append(delivered)
    return Verdict.of(checks)


def _fault_free_checks(rows: Rows) -> list[Check]:
    """Check that FT-DRB without failures is as fast as dimension order, and reroutes nothing."""
    drb = where(rows, routing="ft-drb")
    base_s = mean_of(where(rows, routing="dor"), "latency_s")
    more_percent = 100.0 * (mean_of(drb, "latency_s") / base_s - 1.0)
    cost = Claim("fault-free FT-DRB costs nothing over dimension order (% of latency)")
    cost_check = cost.equal(0.0, more_percent, 0.1)
    cost_check = cost_check.cites("no overhead without failures (3.5.3)")
    cost_check = cost_check.against(
        100.0 * ACK_BYTES / MESSAGE_BYTES,
        "every message waits for an ACK of 64 bytes before it",
    )

    rerouted = sum(row["escapes"] + row["alternative"] for row in drb)
    name = "fault-free FT-DRB sends every packet over the dimension-order path (packets rerouted)"
    path_check = Claim(name).equal(0.0, rerouted)
    half_of_messages = float(sum_of(drb, "sent")) / 2
    path_check = path_check.against(
        half_of_messages,
        "dimension order is one of the two orders of a torus, and is taken by chance",
    )
    return [cost_check.noting("its ACKs share the links"), path_check]


def _nac_checks(bare: Rows, with_nac: Rows) -> list[Check]:
    """Check that runs deadlock without NAC, and deliver all messages because NAC moves packets.

    Args:
        bare: Runs without NAC.
        with_nac: The same runs with NAC.
    """
    deadlocked = sum_of(bare, "deadlocked")
    bare_check = Claim("without NAC, FT-DRB with failures deadlocks (runs)").at_least(
        0.5 * len(bare), deadlocked
    )
    bare_check = bare_check.against(0.0, "none, as with NAC")
    bare_check = bare_check.noting(
        f"of {len(bare)}; {BUSY_FAULTS} failed links, {BUSY_RATE:.0f} packets/s a node"
    )

    name = "with NAC the same runs deliver every packet (runs that deadlock or deliver less)"
    nac_check = Claim(name).equal(0.0, _incomplete_runs(with_nac))

    moves = [row["nac_moves"] for row in with_nac]
    moves_check = Claim("moves of NAC in each of these runs (the least)").at_least(1.0, min(moves))
    moves_check = moves_check.against(0.0, "they would not have deadlocked anyway")
    return [
        bare_check,
        nac_check.against(deadlocked, "as without NAC"),
        moves_check.noting(f"{sum(moves)} moves in {len(with_nac)} runs"),
    ]


def _full_torus_check(rows: Rows) -> Check:
    """Check that dimension order on a busy torus delivers all messages with NAC."""
    name = "8x8 uniform at 0.8 of a link with NAC: runs that deadlock or deliver less than was sent"
    check = Claim(name).equal(0.0, _incomplete_runs(rows))
    check = check.against(len(rows), "all, as in the ring without NAC from 34,000 packets/s on")
    return check.noting(
        f"{len(rows)} runs of {rows[0]['seconds']:g} s, {sum_of(rows, 'nac_moves')} moves"
    )


def _incomplete_runs(rows: Rows) -> int:
    """Return the number of runs that deadlock or do not deliver all messages."""
    count = 0
    for row in rows:
        if row["deadlocked"] or row["sent"] != row["received"]:
            count += 1
    return count


def _improvement_check(rows: Rows, design: str) -> Check:
    """Check the escapes with an improvement of 3.6.1 over those with the defaults, run by run.

    The same seed fails the same links.
    """
    improved = {row["seed"]: row["escapes"] for row in where(rows, design=design)}
    ratios = []
    for row in where(rows, design=DEFAULTS):
        if row["escapes"]:
            ratios.append(improved[row["seed"]] / row["escapes"])
    check = at_most(f"{design}: escapes over those of the defaults", 0.95, ratios)
    check = check.cites("performance further improved (3.6.1)")
    return check.against(1.0, "no improvement")


def figures(rows: Rows) -> Figures:
    """Draw packets delivered with and without NAC, and escapes by design alternative."""
    series = {"none": "without NAC", "nac": "with NAC"}
    offered = "0.6 of a link offered by each node"
    delivered: dict[tuple[str, str], list[float]] = {}
    for row in where(rows, part="deadlock"):
        percent = 100.0 * row["received"] / row["sent"]
        delivered.setdefault((series[row["deadlock"]], offered), []).append(percent)
    alternatives = where(rows, part="alternatives")
    escapes = {}
    for design, values in grouped(alternatives, "design", "escapes").items():
        escapes["FT-DRB", design] = values
    return {
        "deadlock": draw_bars(
            "FT-DRB with 8 failed links above saturation", delivered, y="packets delivered (%)"
        ),
        "alternatives-escapes": draw_bars(
            "Design alternatives (3.6): escapes with ten transient failures",
            escapes,
            y="escapes a run",
        ),
    }


STUDY = Study.of_module(
    __name__,
    name="interconnect_safety",
    title="Cost of FT-DRB without failures, and whether NAC prevents its deadlocks with failures",
    deviations=(
        "The deadlock needs eight failed links and an offered load of 0.6 of a link. The "
        "document's (Figure 4.2) needs two links.",
        "Of the alternatives of section 3.6, the two that the document calls improvements are "
        "judged. It gives no figure.",
    ),
    answers="Zarza 2011, sections 5.3 and 5.6.7: sent = received, no cost without failures; "
    "chapter 4: NAC prevents deadlock",
    measure=measure_run,
)
