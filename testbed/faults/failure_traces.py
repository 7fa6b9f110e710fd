"""Failure traces of real machines: parsers of published tables, and synthetic traces.

The tables are that of LANL, the event table of the Failure Trace Archive (FTA) and that of PNNL. A
parser takes lines and returns the failures of the network. A named rule decides which rows count,
and every trace contains the name of its rule. Synthetic traces have the statistics of real ones,
for use where the tables are not available.
"""

import csv
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter

from testbed.errors import InputError

# Rules that select rows of the LANL table; see ``parse_lanl_table``.
LANL_RULES = ("interconnect-hardware", "network-column", "either")
# Reasons of the FTA table that stand for failures of the network.
FTA_NETWORK_REASONS = range(3000, 4000)
# Beginnings of the names of parts of the Quadrics network in the PNNL table.
PNNL_NETWORK_PARTS = ("ELAN", "QSW")
# The trace of MPP2 in the thesis ends in September 2007. The public table continues to July 2008.
PNNL_UNTIL = datetime(2007, 10, 1, tzinfo=UTC)

_LANL_COLUMNS = ("System", "nodenum", "Prob Started", "Prob Fixed", "Hardware", "Network")
_PNNL_COLUMNS = ("Date", "Hardware Identifier", "What Failed")


@dataclass(frozen=True, kw_only=True)
class NetworkFailure:
    """A failure of a component of the network.

    Attributes:
        component: Name of the component.
        start_s: When the failure began, in seconds since the Unix epoch.
        end_s: When it was repaired, in seconds since the Unix epoch. None if the trace does not
            contain the repair.
        row: Number of the row of the failure in the table. The header is row 1.
    """

    component: str
    start_s: float
    end_s: float | None
    row: int


@dataclass(frozen=True, kw_only=True)
class FailureTrace:
    """The network failures of a machine.

    Attributes:
        system: Name of the machine.
        failures: The failures, by start.
        start_s: First moment in all rows of the machine, in seconds since the Unix epoch.
        end_s: Last moment in all rows of the machine.
        rule: The rule that selected the rows.
        bad_rows: Numbers of the rows that were skipped because they are invalid.
    """

    system: str
    failures: tuple[NetworkFailure, ...]
    start_s: float
    end_s: float
    rule: str
    bad_rows: tuple[int, ...] = ()

    @property
    def span_s(self) -> float:
        """Duration of the trace in seconds."""
        return self.end_s - self.start_s


def parse_lanl_table(
    lines: Iterable[str],
    system: str,
    *,
    rule: str = "interconnect-hardware",
    skip_bad_rows: bool = False,
) -> FailureTrace:
    """Parse the LANL table (LA-UR-05-7318, comma separated).

    Times are taken as UTC.

    Args:
        lines: The lines of the table.
        system: Number of the system whose failures are returned.
        rule: ``interconnect-hardware`` selects the rows whose Hardware begins with "Interconnect",
            ``network-column`` those with a text in Network, and ``either`` both.
        skip_bad_rows: Whether invalid rows are skipped.

    Raises:
        InputError: A row is invalid and not skipped, a column is missing, or the system or the
            rule is unknown.
    """
    if rule not in LANL_RULES:
        raise InputError(f"rule {rule!r} is unknown; give one of {', '.join(LANL_RULES)}")
    collector = _Collector(
        system=str(system), rule=rule, skip_bad_rows=skip_bad_rows, kind="LANL table"
    )

    def is_network_failure(row: Mapping[str, str]) -> bool:
        by_hardware = row["Hardware"].strip().lower().startswith("interconnect")
        by_column = bool(row["Network"].strip())
        if rule == "interconnect-hardware":
            return by_hardware
        if rule == "network-column":
            return by_column
        return by_hardware or by_column

    for number, row in _rows(lines, _LANL_COLUMNS, "LANL table"):
        row_system = (row["System"] or "").strip()
        collector.systems.add(row_system)
        if row_system != collector.system:
            continue
        with collector.row(number):
            _check_complete(row, _LANL_COLUMNS)
            start_s = _moment(row["Prob Started"], "Prob Started")
            end_s = None
            if row["Prob Fixed"].strip():
                end_s = _moment(row["Prob Fixed"], "Prob Fixed")
            collector.add_moments(start_s, end_s)
            if is_network_failure(row):
                collector.add_failure(number, start_s, end_s, row["nodenum"].strip())
    return collector.trace()


def parse_fta_events(
    lines: Iterable[str], system: str, *, skip_bad_rows: bool = False
) -> FailureTrace:
    """Parse the event table of the Failure Trace Archive.

    A network failure is an available period (event type 1) that ended for a reason from 3000 to
    3999. Its outage is the next unavailable period (event type 0) of the node.

    Args:
        lines: The lines of the table.
        system: The system whose failures are returned, which stands before the dot in
            ``node_name``.
        skip_bad_rows: Whether invalid rows are skipped.

    Raises:
        InputError: A row is invalid and not skipped, or the system is unknown.
    """
    collector = _Collector(
        system=str(system),
        rule="available periods ended by reasons 3000-3999",
        skip_bad_rows=skip_bad_rows,
        kind="FTA table",
    )
    # Node -> numbers of the rows with failures whose outage has not been read yet.
    failure_rows: dict[str, list[int]] = {}
    for number, line in enumerate(lines, start=1):
        columns = line.split()
        if not columns or columns[0] == "event_id":
            continue
        with collector.row(number):
            if len(columns) != 9:
                raise ValueError(f"{len(columns)} columns instead of 9")
            row_system, _, node = columns[4].partition(".")
            collector.systems.add(row_system)
            if row_system != collector.system:
                continue
            event_type = int(columns[5])
            reason = int(columns[8])
            start_s = float(columns[6])
            stop_s = float(columns[7])
            if event_type not in (0, 1):
                raise ValueError(f"event_type {event_type} is neither 0 nor 1")
            if stop_s < start_s:
                raise ValueError("it stops before it starts")
            if event_type == 1 and reason in FTA_NETWORK_REASONS:
                failure_rows.setdefault(node, []).append(number)
            if event_type == 0:
                for row in failure_rows.pop(node, []):
                    collector.add_failure(row, start_s, stop_s, node)
            collector.add_moments(start_s, stop_s)
    return collector.trace()


def parse_pnnl_table(lines: Iterable[str], *, skip_bad_rows: bool = False) -> FailureTrace:
    """Parse PNNL's table of the machine MPP2 (comma separated).

    The failures are the rows whose failed part belongs to the Quadrics network (ELAN... or QSW...).
    The table has no repair times, so every ``end_s`` is None. Rows from ``PNNL_UNTIL`` on are
    ignored. A date without a time of day means midnight.

    Args:
        lines: The lines of the table.
        skip_bad_rows: Whether invalid rows are skipped.

    Raises:
        InputError: A row is invalid and not skipped, or a column is missing.
    """
    rule = f"What Failed begins with ELAN or QSW, before {PNNL_UNTIL:%Y-%m-%d}"
    collector = _Collector(system="MPP2", rule=rule, skip_bad_rows=skip_bad_rows, kind="PNNL table")
    collector.systems.add("MPP2")
    for number, row in _rows(lines, _PNNL_COLUMNS, "PNNL table"):
        with collector.row(number):
            _check_complete(row, _PNNL_COLUMNS)
            start_s = _moment(row["Date"], "Date")
            if start_s >= PNNL_UNTIL.timestamp():
                continue
            collector.add_moments(start_s, None)
            if row["What Failed"].strip().upper().startswith(PNNL_NETWORK_PARTS):
                component = row["Hardware Identifier"].strip().lower()
                collector.add_failure(number, start_s, None, component)
    return collector.trace()


class _Collector:
    """Collects the failures and the time span of a table, and handles its invalid rows.

    Attributes:
        system: The system whose rows are collected.
        systems: The systems of all rows.
    """

    def __init__(self, *, system: str, rule: str, skip_bad_rows: bool, kind: str) -> None:
        self.system = system
        self.systems: set[str] = set()
        self._rule = rule
        self._kind = kind
        self._skip_bad_rows = skip_bad_rows
        self._failures: list[NetworkFailure] = []
        self._bad_rows: list[int] = []
        self._moments_s: list[float] = []

    @contextmanager
    def row(self, number: int) -> Iterator[None]:
        """Skip the row if a ValueError is raised within the block, or raise it as InputError."""
        try:
            yield
        except ValueError as why:
            if not self._skip_bad_rows:
                raise InputError(
                    f"{self._kind}, row {number}: {why}; correct the row, or skip bad rows"
                ) from None
            self._bad_rows.append(number)

    def add_moments(self, start_s: float, end_s: float | None) -> None:
        """Add the moments of a row to the time span; ValueError if they are in the wrong order."""
        if end_s is not None and end_s < start_s:
            raise ValueError("it is repaired before it fails")
        self._moments_s.append(start_s)
        if end_s is not None:
            self._moments_s.append(end_s)

    def add_failure(self, number: int, start_s: float, end_s: float | None, component: str) -> None:
        """Add the failure in a row of this number."""
        failure = NetworkFailure(component=component, start_s=start_s, end_s=end_s, row=number)
        self._failures.append(failure)

    def trace(self) -> FailureTrace:
        """Return the trace of all failures; InputError if no row is of the system."""
        if not self._moments_s:
            # Shorter names first sorts numbers by their value.
            systems = sorted(sorted(self.systems), key=len)
            listed = ", ".join(systems[:40]) or "no rows at all"
            raise InputError(f"{self._kind}: no rows of system {self.system!r}; it has {listed}")
        failures = sorted(self._failures, key=attrgetter("start_s", "row"))
        return FailureTrace(
            system=self.system,
            failures=tuple(failures),
            start_s=min(self._moments_s),
            end_s=max(self._moments_s),
            rule=self._rule,
            bad_rows=tuple(self._bad_rows),
        )


def _rows(
    lines: Iterable[str], columns: tuple[str, ...], kind: str
) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the rows of a table with a header, each with its number."""
    all_lines = list(lines)
    header = all_lines[0] if all_lines else ""
    # The separator is the most frequent of these characters in the header.
    delimiter = max(",;\t", key=header.count)
    reader = csv.DictReader(all_lines or [""], delimiter=delimiter)
    missing = [name for name in columns if name not in (reader.fieldnames or ())]
    if missing:
        raise InputError(f"{kind}, row 1: no column {missing[0]!r}; is it another format?")
    for row in reader:
        yield reader.line_num, row


def _check_complete(row: Mapping[str, str | None], columns: tuple[str, ...]) -> None:
    for name in columns:
        if row[name] is None:
            raise ValueError(f"it ends before the column {name!r}")


def _moment(text: str, column: str) -> float:
    """Return a date with or without a time of day as seconds since the Unix epoch."""
    for form in ("%m/%d/%Y %H:%M", "%m/%d/%Y"):
        try:
            return datetime.strptime(text.strip(), form).replace(tzinfo=UTC).timestamp()
        except ValueError:
            # The other form may fit.
            continue
    raise ValueError(f"{column} {text.strip()!r} is not a date like 6/21/2005 10:54")


# Shortest outage of a synthetic trace. The real traces are in minutes.
MIN_OUTAGE_S = 60.0

# Synthetic traces begin on 2003-01-01.
_EPOCH_S = 1_041_379_200.0


@dataclass(frozen=True, kw_only=True)
class TraceStatistics:
    """Statistics of a trace.

    Attributes:
        nodes: Number of nodes of the machine.
        failures: Number of failures.
        components: Number of different components that failed.
        span_s: Duration of the trace in seconds.
        gap_variation: Standard deviation of the times between failures, divided by their mean.
        outage_median_s: Median of the outages in seconds, or None if repairs are not known.
        outage_log_deviation: Standard deviation of the natural logarithm of the outages, or None.
            Outages below a minute count as one minute.

    Raises:
        InputError: The number of components, the span or the variation is impossible.
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
                f"trace statistics: {self.components} components for {self.failures} failures "
                f"of {self.nodes} nodes; give 1 or more, and not more than either"
            )
        if not (self.span_s > 0 and self.gap_variation > 0):
            raise InputError("trace statistics: span and variation of the gaps must be above 0")


# Statistics of the public tables by the rules of this module (LANL: interconnect-hardware). A test
# measures them again.
KNOWN_STATISTICS: Mapping[str, TraceStatistics] = {
    "lanl-12": TraceStatistics(
        nodes=512,
        failures=52,
        components=46,
        span_s=58_523_520.0,
        gap_variation=1.504,
        outage_median_s=1290.0,
        outage_log_deviation=2.37,
    ),
    "lanl-18": TraceStatistics(
        nodes=1024,
        failures=28,
        components=22,
        span_s=105_519_780.0,
        gap_variation=1.39,
        outage_median_s=9300.0,
        outage_log_deviation=0.727,
    ),
    "lanl-19": TraceStatistics(
        nodes=1024,
        failures=58,
        components=35,
        span_s=91_295_700.0,
        gap_variation=2.191,
        outage_median_s=5760.0,
        outage_log_deviation=0.912,
    ),
    "pnnl-mpp2": TraceStatistics(
        nodes=980,
        failures=167,
        components=113,
        span_s=120_904_680.0,
        gap_variation=2.014,
        outage_median_s=None,
        outage_log_deviation=None,
    ),
}


def generate_trace(
    statistics: TraceStatistics, *, seed: int | Sequence[int], name: str = "synthetic"
) -> FailureTrace:
    """Generate a trace with these statistics.

    The times between failures have a Weibull distribution, and the outages a lognormal one. The
    number of failures, the number of components and the span are met exactly.

    Args:
        statistics: The statistics.
        seed: Seed of the random generator.
        name: Name of the machine in the trace.
    """
    # numpy takes long to import, and the parsers do not need it.
    import numpy as np

    rng = np.random.default_rng(seed)
    gaps = rng.weibull(_weibull_shape(statistics.gap_variation), size=statistics.failures + 1)
    starts = np.cumsum(gaps)[:-1] / gaps.sum() * statistics.span_s
    components = rng.permutation(statistics.nodes)[: statistics.components]
    # Each component fails once, and random ones fail again.
    repeated = rng.integers(statistics.components, size=statistics.failures - statistics.components)
    component_of_failure = np.concatenate([np.arange(statistics.components), repeated])
    rng.shuffle(component_of_failure)
    failures = []
    for k, start in enumerate(starts.tolist()):
        end_s = None
        if statistics.outage_median_s is not None and statistics.outage_log_deviation is not None:
            deviation = statistics.outage_log_deviation * float(rng.normal())
            outage_s = statistics.outage_median_s * math.exp(deviation)
            end_s = _EPOCH_S + start + max(outage_s, MIN_OUTAGE_S)
        failure = NetworkFailure(
            component=str(components[component_of_failure[k]]),
            start_s=_EPOCH_S + start,
            end_s=end_s,
            # A table with these failures has a header in row 1.
            row=k + 2,
        )
        failures.append(failure)
    return FailureTrace(
        system=name,
        failures=tuple(failures),
        start_s=_EPOCH_S,
        end_s=_EPOCH_S + statistics.span_s,
        rule="generated",
    )


def _weibull_shape(variation: float) -> float:
    """Return the shape of a Weibull distribution by bisection between 0.2 and 20.

    Args:
        variation: Standard deviation divided by the mean.
    """
    low = 0.2
    high = 20.0
    for _ in range(60):
        middle = (low + high) / 2
        squared_variation = math.gamma(1 + 2 / middle) / math.gamma(1 + 1 / middle) ** 2 - 1
        if squared_variation > variation**2:
            low = middle
        else:
            high = middle
    return low
