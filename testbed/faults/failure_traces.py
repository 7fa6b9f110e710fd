"""Availability traces of real machines: parsers for the LANL table, the FTA event format and the PNNL table; and
synthetic ones with their statistics, for where the data themselves are not at hand.

Lines come in, network failures go out; which rows count is a named rule, and every trace says which was used.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime

from testbed.errors import InputError

LANL_RULES = ("interconnect-hardware", "network-column", "either")
FTA_NETWORK_REASONS = range(3000, 4000)
PNNL_NETWORK_PARTS = ("ELAN", "QSW")
PNNL_UNTIL = datetime(2007, 10, 1, tzinfo=UTC)
"""The thesis' trace of MPP2 ends in September 2007; the public table goes on to July 2008."""

_LANL_COLUMNS = ("System", "nodenum", "Prob Started", "Prob Fixed", "Hardware", "Network")
_PNNL_COLUMNS = ("Date", "Hardware Identifier", "What Failed")


@dataclass(frozen=True, kw_only=True)
class NetworkFailure:
    """One failure: the component's name, when it began and ended in seconds of the Unix epoch (``end_s`` None: no
    repair is recorded, or none came before the trace ends), and the row that says so (1: the header).
    """

    component: str
    start_s: float
    end_s: float | None
    row: int


@dataclass(frozen=True, kw_only=True)
class FailureTrace:
    """The network failures of one machine, by start. ``start_s``, ``end_s``: first and last moment that the machine's
    rows speak of (all rows, not only the network's). ``rule``: which rows counted. ``bad_rows``: row numbers skipped.
    """

    system: str
    failures: tuple[NetworkFailure, ...]
    start_s: float
    end_s: float
    rule: str
    bad_rows: tuple[int, ...] = ()

    @property
    def span_s(self) -> float:
        return self.end_s - self.start_s


def parse_lanl_table(
    lines: Iterable[str],
    system: str,
    *,
    rule: str = "interconnect-hardware",
    skip_bad_rows: bool = False,
) -> FailureTrace:
    """The LANL table (LA-UR-05-7318, comma separated): failures of the system of that number.

    ``rule``: ``interconnect-hardware`` counts rows whose Hardware begins with "Interconnect", ``network-column`` those
    with a word in Network, ``either`` both. Times are taken as UTC. Raises InputError for a row that cannot be read
    (its number is given), unless ``skip_bad_rows``; for a table without the columns; and for an unknown system or rule.
    """
    if rule not in LANL_RULES:
        raise InputError(f"rule {rule!r} is unknown; give one of {', '.join(LANL_RULES)}")
    collected = _Collector(
        system=str(system), rule=rule, skip_bad_rows=skip_bad_rows, kind="LANL table"
    )

    def counts(row: Mapping[str, str]) -> bool:
        by_hardware = row["Hardware"].strip().lower().startswith("interconnect")
        by_column = bool(row["Network"].strip())
        return (by_hardware and rule != "network-column") or (
            by_column and rule != "interconnect-hardware"
        )

    for number, row in _rows(lines, _LANL_COLUMNS, "LANL table"):
        with_system = (row["System"] or "").strip()
        collected.seen.add(with_system)
        if with_system != collected.system:
            continue
        with collected.row(number):
            _complete(row, _LANL_COLUMNS)
            start = _moment(row["Prob Started"], "Prob Started")
            end = _moment(row["Prob Fixed"], "Prob Fixed") if row["Prob Fixed"].strip() else None
            collected.take(number, start, end, row["nodenum"].strip() if counts(row) else None)
    return collected.trace()


def parse_fta_events(
    lines: Iterable[str], system: str, *, skip_bad_rows: bool = False
) -> FailureTrace:
    """The Failure Trace Archive's event table: failures of the system named before the dot in ``node_name``.

    A network failure is an available period (event type 1) that ended for a reason of 3000-3999; its outage is that
    node's next unavailable period (type 0). Raises InputError as ``parse_lanl_table``.
    """
    required = str(system)
    rule = "available periods ended by reasons 3000-3999"
    collected = _Collector(
        system=required, rule=rule, skip_bad_rows=skip_bad_rows, kind="FTA table"
    )
    broken_by: dict[
        str, list[int]
    ] = {}  # node -> row numbers of failures that wait for their outage
    for number, line in enumerate(lines, start=1):
        words = line.split()
        if not words or words[0] == "event_id":
            continue
        with collected.row(number):
            if len(words) != 9:
                raise ValueError(f"{len(words)} columns instead of 9")
            machine, _, node = words[4].partition(".")
            collected.seen.add(machine)
            if machine != required:
                continue
            kind, reason = int(words[5]), int(words[8])
            start, stop = float(words[6]), float(words[7])
            if kind not in (0, 1):
                raise ValueError(f"event_type {kind} is neither 0 nor 1")
            if stop < start:
                raise ValueError("it stops before it starts")
            if kind == 1 and reason in FTA_NETWORK_REASONS:
                broken_by.setdefault(node, []).append(number)
            if kind == 0:
                for row in broken_by.pop(node, []):
                    collected.failures.append(
                        NetworkFailure(component=node, start_s=start, end_s=stop, row=row)
                    )
            collected.take(number, start, stop, None)
    return collected.trace()


def parse_pnnl_table(lines: Iterable[str], *, skip_bad_rows: bool = False) -> FailureTrace:
    """PNNL's table of MPP2 (comma separated): rows whose failed part is of the Quadrics network (ELAN..., QSW...).

    It has no repair times: every ``end_s`` is None. Rows from ``PNNL_UNTIL`` on are left out. A date without a time of
    day stands for midnight. Raises InputError as ``parse_lanl_table``.
    """
    rule = f"What Failed begins with ELAN or QSW, before {PNNL_UNTIL:%Y-%m-%d}"
    collected = _Collector(system="MPP2", rule=rule, skip_bad_rows=skip_bad_rows, kind="PNNL table")
    collected.seen.add("MPP2")
    for number, row in _rows(lines, _PNNL_COLUMNS, "PNNL table"):
        with collected.row(number):
            _complete(row, _PNNL_COLUMNS)
            start = _moment(row["Date"], "Date")
            if start < PNNL_UNTIL.timestamp():
                counts = row["What Failed"].strip().upper().startswith(PNNL_NETWORK_PARTS)
                collected.take(
                    number,
                    start,
                    None,
                    row["Hardware Identifier"].strip().lower() if counts else None,
                )
    return collected.trace()


class _Collector:
    """Failures, the interval of all rows, and what to do with rows that cannot be read."""

    def __init__(self, *, system: str, rule: str, skip_bad_rows: bool, kind: str) -> None:
        self.system, self.rule, self.kind = system, rule, kind
        self.skip_bad_rows = skip_bad_rows
        self.seen: set[str] = set()
        self.failures: list[NetworkFailure] = []
        self.bad_rows: list[int] = []
        self.moments: list[float] = []

    @contextmanager
    def row(self, number: int) -> Iterator[None]:
        """A row is read: one that is broken is skipped, or InputError."""
        try:
            yield
        except ValueError as why:
            if not self.skip_bad_rows:
                raise InputError(
                    f"{self.kind}, row {number}: {why}; correct the row, or skip bad rows"
                ) from None
            self.bad_rows.append(number)

    def take(self, number: int, start: float, end: float | None, component: str | None) -> None:
        """The moments of a row and, where a ``component`` of the network failed, its failure."""
        if end is not None and end < start:
            raise ValueError("it is repaired before it fails")
        self.moments += [start] if end is None else [start, end]
        if component is not None:
            self.failures.append(
                NetworkFailure(component=component, start_s=start, end_s=end, row=number)
            )

    def trace(self) -> FailureTrace:
        if not self.moments:
            known = ", ".join(sorted(self.seen, key=lambda name: (len(name), name))[:40])
            raise InputError(
                f"{self.kind}: no rows of system {self.system!r}; it has {known or 'no rows at all'}"
            )
        failures = tuple(sorted(self.failures, key=lambda failure: (failure.start_s, failure.row)))
        start, end = min(self.moments), max(self.moments)
        return FailureTrace(
            system=self.system,
            failures=failures,
            start_s=start,
            end_s=end,
            rule=self.rule,
            bad_rows=tuple(self.bad_rows),
        )


def _rows(
    lines: Iterable[str], columns: tuple[str, ...], kind: str
) -> Iterator[tuple[int, dict[str, str]]]:
    head, *others = [*lines] or [""]
    reader = csv.DictReader([head, *others], delimiter=max(",;\t", key=head.count))
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{kind}, row 1: no column {missing[0]!r}; is it another format?")
    for row in reader:
        yield reader.line_num, row


def _complete(row: Mapping[str, str | None], columns: tuple[str, ...]) -> None:
    for name in columns:
        if row[name] is None:
            raise ValueError(f"it ends before the column {name!r}")


def _moment(text: str, column: str) -> float:
    for form in ("%m/%d/%Y %H:%M", "%m/%d/%Y"):
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            continue
    raise ValueError(f"{column} {text.strip()!r} is no date like 6/21/2005 10:54")


MIN_OUTAGE_S = 60.0
_EPOCH_S = 1_041_379_200.0  # 2003-01-01


@dataclass(frozen=True, kw_only=True)
class TraceStatistics:
    """``failures`` within ``span_s``, on ``components`` different components of ``nodes``. ``gap_variation``: standard
    deviation over mean of the times between failures. Outages: median in seconds and standard deviation of the natural
    logarithm (those below a minute counted as one minute); None where no repair is known.
    """

    nodes: int
    failures: int
    components: int
    span_s: float
    gap_variation: float
    outage_median_s: float | None
    outage_log_deviation: float | None

    def __post_init__(self) -> None:
        if not 1 <= self.components <= min(self.failures, self.nodes):
            raise InputError(
                f"trace statistics: {self.components} components for {self.failures} failures of {self.nodes} nodes; "
                "give 1 or more, and not more than either"
            )
        if not (self.span_s > 0 and self.gap_variation > 0):
            raise InputError("trace statistics: span and variation of the gaps must be above 0")


KNOWN_STATISTICS: Mapping[str, TraceStatistics] = {
    "lanl-12": TraceStatistics(
        nodes=512, failures=52, components=46, span_s=58_523_520.0, gap_variation=1.504,
        outage_median_s=1290.0, outage_log_deviation=2.37,
    ),
    "lanl-18": TraceStatistics(
        nodes=1024, failures=28, components=22, span_s=105_519_780.0, gap_variation=1.39,
        outage_median_s=9300.0, outage_log_deviation=0.727,
    ),
    "lanl-19": TraceStatistics(
        nodes=1024, failures=58, components=35, span_s=91_295_700.0, gap_variation=2.191,
        outage_median_s=5760.0, outage_log_deviation=0.912,
    ),
    "pnnl-mpp2": TraceStatistics(
        nodes=980, failures=167, components=113, span_s=120_904_680.0, gap_variation=2.014,
        outage_median_s=None, outage_log_deviation=None,
    ),
}  # fmt: skip
"""Measured from the public tables by the rules of failure_traces.py (LANL: interconnect-hardware); a test measures them
again."""


def generate_trace(
    statistics: TraceStatistics, *, seed: int | Sequence[int], name: str = "synthetic"
) -> FailureTrace:
    """A trace of these statistics: gaps from a Weibull distribution of that variation, outages lognormal.

    The number of failures, of different components, and the span are met exactly.
    """
    import numpy as np  # readers of traces do not wait for it

    chance = np.random.default_rng(seed)
    gaps = chance.weibull(_weibull_shape(statistics.gap_variation), size=statistics.failures + 1)
    starts = np.cumsum(gaps)[:-1] / gaps.sum() * statistics.span_s
    components = chance.permutation(statistics.nodes)[: statistics.components]
    again = chance.integers(statistics.components, size=statistics.failures - statistics.components)
    hit = np.concatenate([np.arange(statistics.components), again])
    chance.shuffle(hit)
    failures = []
    for k, start in enumerate(starts.tolist()):
        end = None
        if statistics.outage_median_s is not None and statistics.outage_log_deviation is not None:
            length = statistics.outage_median_s * math.exp(
                statistics.outage_log_deviation * float(chance.normal())
            )
            end = _EPOCH_S + start + max(length, MIN_OUTAGE_S)
        failures.append(
            NetworkFailure(
                component=str(components[hit[k]]), start_s=_EPOCH_S + start, end_s=end, row=k + 2
            )
        )
    return FailureTrace(
        system=name,
        failures=tuple(failures),
        start_s=_EPOCH_S,
        end_s=_EPOCH_S + statistics.span_s,
        rule="generated",
    )


def _weibull_shape(variation: float) -> float:
    """The shape whose standard deviation over mean is that; by bisection between 0.2 and 20."""
    low, high = 0.2, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        square = math.gamma(1 + 2 / middle) / math.gamma(1 + 1 / middle) ** 2 - 1
        low, high = (middle, high) if square > variation**2 else (low, middle)
    return low
