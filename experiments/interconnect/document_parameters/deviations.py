"""Measures what changes where the simulator departs from the document (Zarza 2011, 3 and 4).

Each departure is an option. The runs with it and without it have the same messages and the same
failures. The table of docs/replication/ft_drb_deviations.md quotes this study.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

from experiments.interconnect.runs import parameters_of
from experiments.interconnect.samples import COUNTED, at_least, equal, mean
from experiments.interconnect.study_points import (
    LINK_BPS,
    LINK_PACKETS_PER_S,
    UNIFORM_S,
    Run,
    faults_of,
    network_of,
    traffic_of,
)
from testbed.interconnect.options import NacOptions
from testbed.interconnect.results import summarize
from testbed.interconnect.simulation import simulate
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
    sum_of,
    where,
)
from testbed.report.drawing.charts import draw_bars

NETWORK = "torus:8x8"

# The option without a departure.
DEFAULT = "as it is"

SHARED_ACKS = "ACKs share buffers"
HEADER = "header of 16 B"
LETTER = "Algorithm 3.3 to the letter"
STOP_OUTPUT = "stop_st at detection"
STRICT_SLOT = "strict avoidance buffer"

# Options of FT-DRB or of NAC by departure.
OPTIONS: dict[str, Results] = {
    SHARED_ACKS: {"options": {"ack_buffers": "shared"}},
    HEADER: {"options": {"header_bytes": 16}},
    "synthetic probes": {"options": {"probes": "synthetic"}},
    LETTER: {"options": {"hysteresis": False, "averaging": 1}},
    STOP_OUTPUT: {"nac": {"stop_output": True}},
    "identification anew": {"nac": {"identify_anew": True}},
    STRICT_SLOT: {"nac": {"strict_slot": True}},
}
FT_DRB_DEPARTURES = tuple(name for name in OPTIONS if "options" in OPTIONS[name])
NAC_DEPARTURES = tuple(name for name in OPTIONS if "nac" in OPTIONS[name])

# Settings in which the departures are measured: fields of ``Run``. The others are those of an 8x8
# torus under uniform traffic with 512 bytes, for as long as in all studies (``UNIFORM_S``). The
# time at 0.2 of a link gives about as many messages. NAC is at work in the last two settings. In
# the rows a setting is called "place".
LOW_LOAD = "0.2 of a link"
HIGH_LOAD = "0.6 of a link"
RING = "ring of 8"
SETTINGS: dict[str, Results] = {
    "400 packets/s": {"faults": 12, "fault_kind": "start"},
    "transient faults": {"faults": 12, "fault_kind": "transient"},
    "intermittent faults": {"faults": 12, "fault_kind": "intermittent"},
    LOW_LOAD: {
        "rate": 0.2 * LINK_PACKETS_PER_S,
        "seconds": 0.032,
        "faults": 12,
        "fault_kind": "start",
    },
    HIGH_LOAD: {
        "rate": 0.6 * LINK_BPS / (8 * 2048),
        "seconds": 0.002,
        "faults": 8,
        "fault_kind": "start",
        "bytes": 2048,
        "buffer_bytes": 4096,
    },
    RING: {
        "network": "ring:8",
        "pattern": "tornado",
        "routing": "dor",
        "rate": 34_000.0,
        "seconds": 0.02,
        "bytes": 2048,
        "buffer_bytes": 4096,
    },
}

# Settings with the stated rate, in which performance is measured. The runs without failures are
# in the first one: they do not depend on the kind of failures.
STATED = ("400 packets/s", "transient faults", "intermittent faults")
FAULT_FREE_SETTING = STATED[0]


def departures_at(setting: str) -> tuple[str, ...]:
    """Return the departures that are measured in a setting."""
    if setting == RING:
        return NAC_DEPARTURES
    if setting == LOW_LOAD:
        return FT_DRB_DEPARTURES
    if setting == HIGH_LOAD:
        return (SHARED_ACKS, HEADER, *NAC_DEPARTURES)
    # Nothing queues at the stated rate, so that Algorithm 3.3 makes no difference.
    return tuple(name for name in FT_DRB_DEPARTURES if name != LETTER)


def points(quick: bool, seed: int) -> Points:
    """Return the points: each setting, without a departure and with each."""
    seed_count = 2 if quick else 20
    result: Points = []
    for run_seed in range(seed, seed + seed_count):
        for setting, fields in SETTINGS.items():
            seconds = fields.get("seconds", UNIFORM_S[NETWORK])
            if quick:
                seconds = seconds / 8
            for option in (DEFAULT, *departures_at(setting)):
                point = {"place": setting, "option": option, "seed": run_seed, "seconds": seconds}
                result.append({**point, "whole": False})
                if setting == FAULT_FREE_SETTING:
                    result.append({**point, "whole": True})
    return result


def measure(point: Row) -> Results:
    """Simulate one run.

    Returns:
        Numbers of messages, latency by equations 5.1 and 5.2, the time of the last delivery, and
        the counters of FT-DRB and NAC.
    """
    departure = OPTIONS.get(point["option"], {})
    settings = {
        "network": NETWORK,
        "pattern": "uniform",
        "seed": point["seed"],
        **SETTINGS[point["place"]],
        "seconds": point["seconds"],
        "options": departure.get("options", {}),
    }
    run = Run(**settings)
    nac = NacOptions(**departure.get("nac", {}))
    parameters = replace(parameters_of(run), nac=nac)
    # "whole" marks the runs without failures.
    faults = () if point["whole"] else faults_of(run)
    result = simulate(network_of(run.network), traffic_of(run), parameters, faults)
    summary = summarize(result, start_s=0.0, end_s=run.seconds)
    return {
        "sent": result.sent,
        "received": result.received,
        "deadlocked": result.deadlocked,
        "latency_s": summary.destination_mean_latency_s,
        "last_s": float(result.delivered.max()) / result.ticks_per_s,
        "digest": result.digest,
        "escaped": int((result.escapes > 0).sum()),
        "drb": dict(result.drb_counters),
        "nac": {name: int(count) for name, count in result.nac_counters.items()},
    }


def judge(rows: Rows) -> Verdict:
    """Check that all messages are delivered, and the effects on performance and latency."""
    checks = [_delivery_check(rows)]
    losses = [100.0 * (1.0 - pair.without) for pair in _performances(rows, STATED[0], DEFAULT)]
    loss_of_failures = mean(losses)
    for setting in STATED:
        for option in departures_at(setting):
            check = _performance_check(rows, setting, option)
            checks.append(
                check.against(
                    loss_of_failures, "as much as the failed links themselves cost for good"
                )
            )
    checks += [_stop_output_check(rows), _shared_acks_check(rows)]
    return Verdict.of(checks)


def _delivery_check(rows: Rows) -> Check:
    sent = sum_of(rows, "sent")
    received = sum_of(rows, "received")
    deadlocked = sum(bool(row["deadlocked"]) for row in rows)
    name = "messages that a run leaves undelivered, with any of the departures and without"
    check = Claim(name).count(0.0, sent - received, COUNTED)
    check = check.noting(f"{len(rows)} runs, {sent} messages, {deadlocked} deadlocked")
    return check.of(sent + received)


def _performance_check(rows: Rows, setting: str, option: str) -> Check:
    """Check that a departure hardly changes performance."""
    differences = []
    for pair in _performances(rows, setting, option):
        differences.append(100.0 * (pair.departure - pair.without))
    name = f"{setting}, {option}: performance beside that without (points)"
    return equal(name, 0.0, differences, 0.1)


def _stop_output_check(rows: Rows) -> Check:
    """Check that stopping the output at detection hardly changes the time to drain the ring."""
    check = equal(
        f"{RING}, {STOP_OUTPUT}: time until all has arrived, over that without",
        1.0,
        _ratios(rows, RING, STOP_OUTPUT, "last_s"),
        0.02,
    )
    rival = mean(_ratios(rows, RING, STRICT_SLOT, "last_s"))
    return check.against(rival, "as with a strict avoidance buffer")


def _shared_acks_check(rows: Rows) -> Check:
    """Check that ACKs in the buffers of messages cost latency."""
    check = at_least(
        f"{HIGH_LOAD}, {SHARED_ACKS}: latency over that without",
        1.1,
        _ratios(rows, HIGH_LOAD, SHARED_ACKS, "latency_s"),
    )
    return check.against(1.0, "ACKs take no room that messages miss")


class PerformancePair(NamedTuple):
    """Performance of two runs of a seed, L0 / Lf.

    Attributes:
        departure: Performance with a departure. L0 is the latency without failures and with it.
        without: Performance without the departure.
    """

    departure: float
    without: float


def _performances(rows: Rows, setting: str, option: str) -> Iterator[PerformancePair]:
    """Yield the performances of each seed with a departure and without it."""
    latencies = {}
    for row in rows:
        latencies[row["place"], row["option"], row["seed"], row["whole"]] = row["latency_s"]

    def performance(name: str, seed: int) -> float:
        fault_free: float = latencies[FAULT_FREE_SETTING, name, seed, True]
        with_failures: float = latencies[setting, name, seed, False]
        return fault_free / with_failures

    for row in where(rows, whole=True, option=option):
        seed = row["seed"]
        yield PerformancePair(performance(option, seed), performance(DEFAULT, seed))


def _ratios(rows: Rows, setting: str, option: str, field: str) -> list[float]:
    """Return, for each seed, a field with a departure over the same field without it."""
    in_setting = where(rows, place=setting, whole=False)
    without = {row["seed"]: row[field] for row in where(in_setting, option=DEFAULT)}
    return [row[field] / without[row["seed"]] for row in where(in_setting, option=option)]


def figures(rows: Rows) -> Figures:
    """Draw the change of latency by departure and setting, on the ring of the time to drain."""
    changes_percent = {}
    for setting in SETTINGS:
        field = "last_s" if setting == RING else "latency_s"
        for option in departures_at(setting):
            ratios = _ratios(rows, setting, option, field)
            changes_percent[setting, option] = [100.0 * (ratio - 1.0) for ratio in ratios]
    y = "latency, of the ring time to drain (% more)"
    return {"departures": draw_bars("What each departure changes", changes_percent, y=y)}


STUDY = Study.of_module(
    __name__,
    name="interconnect_deviations",
    title="Departures of the simulator from the document, and what each of them changes",
    deviations=(
        "8x8 torus with uniform traffic and ring of 8 with tornado; twenty seeds; 8 s at the "
        "stated rate, 32 ms at 0.2 of a link, 2 ms at 0.6.",
        "The header's 16 bytes (two routers, a latency, two bits) are ours. The document gives no "
        "sizes.",
        "The criteria were chosen after three trial seeds of the overloaded settings.",
    ),
    answers="Zarza 2011, sections 3.1, 3.3, 3.5.1, 3.6.2 and 4.2: rules that the simulator changes",
)
