"""Runs of one workload side by side: what was measured in each, by how much they differ, what differs in how they were
made."""

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count, zip_longest
from pathlib import Path

from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.studies.samples import grouped, half_width
from testbed.model.verdict import Check, Verdict
from testbed.report.answers import Table
from testbed.report.column_units import NOTHING, cell, column
from testbed.report.drawing import charts
from testbed.report.drawing.charts import HUES, LIGHT, Axes, panels
from testbed.report.drawing.svg_figures import caption_in, rendered
from testbed.report.markup import Markup, tag
from testbed.report.page import page_footer, page_head, picture, whole_page
from testbed.report.sections import badge, table
from testbed.report.wording import state_of
from topologies.files.formats import write_atomically
from topologies.text.json_types import Json, JsonObject

_ROUNDING = 1e-9
"""Differences below this share of a figure are of floating point."""
MOST_DRAWN = 24
"""Figures in the drawing."""
# A label that is a time stamp or a number says nothing about the run.
_GENERIC_LABEL = re.compile(r"\d{8}T\d{6}Z.*|run \d+")
# Options that change where a result goes, not what is measured.
_OUTPUT_OPTIONS = {"--results", "--json", "--csv", "--live", "--plot", "--output", "--retries"}
MAX_LABEL_CHARACTERS = 24


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure: ``half`` the half width of its 95 % interval where that is known, ``predicted`` what theory
    says where it says something, ``field`` the row's field that it is (its unit ends the name) or empty, ``kind`` what
    is measured if the same is measured of several parts of a run (loss, of each fault)."""

    value: float
    half: float | None = None
    predicted: float | None = None
    field: str = ""
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run. ``options``: what its plan was made of, in words, one each; ``figures``: name -> what was measured;
    ``defaults``: values of options that are not among ``options``."""

    label: str
    workload: str
    figures: Mapping[str, Figure]
    verdict: Verdict | None = None
    options: tuple[str, ...] = ()
    seed: int = 1
    machine: str = ""
    defaults: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Runs of one workload, the first being what the others are held against."""

    runs: tuple[ComparedRun, ...]

    def __post_init__(self) -> None:
        if len(self.runs) < 2:
            raise InputError("compare: give two runs or more of one workload")
        workloads = dict.fromkeys(run.workload for run in self.runs)
        if len(workloads) > 1:
            raise InputError(f"compare: runs of {', '.join(workloads)}; give runs of one workload")

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the figures that any run has.

        Figures with a prediction come first. A figure without one is left out if it is the same in
        all runs. Figures of the whole run come before those of its parts, and figures of one kind
        stand together.
        """
        every = dict.fromkeys(name for run in self.runs for name in run.figures)
        predicted = {
            name
            for run in self.runs
            for name, one in run.figures.items()
            if one.predicted is not None
        }
        shown = [
            name
            for name in every
            if name in predicted or len({one and one.value for one in self.of_all(name)}) > 1
        ]
        kinds = {
            name: one.kind for run in self.runs for name, one in run.figures.items() if one.kind
        }
        order = list(dict.fromkeys(kinds[name] for name in shown if name in kinds))

        def position(name: str) -> tuple[bool, int]:
            kind = kinds.get(name)
            return name not in predicted, -1 if kind is None else order.index(kind)

        return tuple(sorted(shown, key=position))

    @cached_property
    def shown_names(self) -> tuple[str, ...]:
        """The names of the figures that are not 0 in every run."""
        return tuple(
            name for name in self.names if any(one and one.value for one in self.of_all(name))
        )

    @property
    def zero_line(self) -> str:
        """The line that names the figures left out because they are 0 in every run, or an empty text."""
        left_out = [name for name in self.names if name not in self.shown_names]
        counts = Counter(self._kind(name) for name in left_out)
        texts = [name if n == 1 else f"{name} ({n} times)" for name, n in counts.items()]
        return f"0 in every run: {', '.join(texts)}" if texts else ""

    def _kind(self, name: str) -> str:
        figures = [one for one in self.of_all(name) if one is not None]
        return figures[0].kind or _heading(name, figures)[0]

    @cached_property
    def differing(self) -> dict[str, tuple[str, ...]]:
        """Name of each option whose values differ -> its value in each run."""
        settings = [{**run.defaults, **_settings(run.options)} for run in self.runs]
        differing = {}
        for name in dict.fromkeys(name for one in settings for name in one):
            values = tuple(one.get(name, "default") for one in settings)
            given = any(name in _settings(run.options) for run in self.runs)
            if given and name not in _OUTPUT_OPTIONS and len(set(values)) > 1:
                differing[name] = values
        return differing

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each run: its own, or the values by which it differs from the others."""
        names = []
        for number, run in enumerate(self.runs):
            texts = [_as_label(name, each[number]) for name, each in self.differing.items()]
            label = ", ".join(texts)
            if not _GENERIC_LABEL.fullmatch(run.label):
                label = run.label
            elif not label or len(label) > MAX_LABEL_CHARACTERS:
                label = f"run {number + 1}"
            names.append(label)
        counts = Counter(names)
        return tuple(
            name if counts[name] == 1 else f"{name}, run {number}"
            for number, name in enumerate(names, 1)
        )

    def difference(self, name: str, run: ComparedRun) -> tuple[float, float | None] | None:
        """(difference to the first run, half width of its 95 % interval where both have one); None where either did not
        measure it."""
        first, this = self.runs[0].figures.get(name), run.figures.get(name)
        if (
            first is None
            or this is None
            or not (math.isfinite(first.value) and math.isfinite(this.value))
        ):
            return None
        known = first.half is not None and this.half is not None
        by = this.value - first.value
        by = 0.0 if abs(by) <= _ROUNDING * abs(first.value) else by
        return by, math.hypot(first.half or 0.0, this.half or 0.0) if known else None

    def save(self, path: str | Path) -> Path:
        """Write the page as one HTML file; its folder is made where missing. TopologyError where that cannot be."""
        where = Path(path)
        with suppress(OSError):  # what is wrong with the place is said of the file
            where.parent.mkdir(exist_ok=True)
        write_atomically(where, self.page().encode())
        return where

    def to_json(self) -> JsonObject:
        """Runs, and the figures with the differences to the first run."""
        return {
            "workload": self.runs[0].workload,
            "runs": [
                {
                    "run": run.label,
                    "label": label,
                    "state": state_of(run.verdict),
                    "seed": run.seed,
                    "options": list(run.options),
                }
                for run, label in zip(self.runs, self.labels, strict=True)
            ],
            "differing": {name: list(values) for name, values in self.differing.items()},
            "figures": [
                {"figure": name, "runs": [self._figure_json(name, run) for run in self.runs]}
                for name in self.names
            ],
        }

    def _figure_json(self, name: str, run: ComparedRun) -> JsonObject | None:
        found, difference = run.figures.get(name), self.difference(name, run)
        if found is None or difference is None:
            return None if found is None else {"value": found.value, "half_width": found.half}
        by, half = difference
        return {
            "value": found.value,
            "half_width": found.half,
            "predicted": found.predicted,
            "difference": by,
            "difference_half_width": half,
            "differs": None if half is None else abs(by) > half,
        }

    def cells(self) -> list[tuple[str, ...]]:
        """The table's rows."""
        return [self.row(name) for name in self.shown_names]

    def as_table(self) -> Table:
        """Return the figures of each run, with the difference to the first run in brackets.

        CSV has one number in each cell.
        """
        title = f"compared with {self.labels[0]} (in brackets: the difference)"
        return Table(
            name="comparison",
            title=title,
            headings=("", *self.labels),
            rows=self.cells(),
            summary=True,
            wide=True,
            data=self._numbers(),
        )

    def _numbers(self) -> Table:
        """Value, half width of its interval and difference to the first run, each in a column."""
        headings = ["figure"]
        for number, label in enumerate(self.labels):
            headings += [label, f"{label}, half width of 95 % interval"]
            if number:
                headings.append(f"{label} - {self.labels[0]}")
        rows = []
        for name in self.names:
            row: list[object] = [name]
            for number, run in enumerate(self.runs):
                figure = run.figures.get(name)
                difference = self.difference(name, run)
                row += [None, None] if figure is None else [figure.value, figure.half]
                if number:
                    row.append(None if difference is None else difference[0])
            rows.append(row)
        columns = [k for k in range(len(headings)) if any(row[k] is not None for row in rows)]
        return Table(
            name="comparison",
            headings=[headings[k] for k in columns],
            rows=[[row[k] for k in columns] for row in rows],
        )

    def runs_table(self) -> Table:
        """The runs: verdict, when each was made, and the options that differ unless the labels name them."""
        numbered = any(re.match(r"run \d+", label) for label in self.labels)
        differing = self.differing if numbered else {}
        rows = []
        for number, run in enumerate(self.runs):
            values = [each[number] for each in differing.values()]
            made = run.label if _GENERIC_LABEL.fullmatch(run.label) else ""
            row = (self.labels[number], state_of(run.verdict), _holding(run), *values, made)
            rows.append(row)
        headings = ("run", "verdict", "checks that hold", *differing, "stored as")
        spare = ("stored as", "checks that hold")
        return Table(name="runs", headings=headings, rows=rows, summary=True, spare=spare)

    def row(self, name: str) -> tuple[str, ...]:
        """Heading, and for each run value and difference in words, in one unit."""
        heading, by = _heading(name, [one for one in self.of_all(name) if one is not None])
        return heading, *(self._words(name, run, by) for run in self.runs)

    def of_all(self, name: str) -> list[Figure | None]:
        """The figure of each run."""
        return [run.figures.get(name) for run in self.runs]

    def _words(self, name: str, run: ComparedRun, by: float) -> str:
        if (found := run.figures.get(name)) is None:
            return NOTHING
        words, difference = _plus_minus(found.value, found.half, by), self.difference(name, run)
        if run is self.runs[0] or difference is None or not any(difference):
            return words
        return f"{words} ({'+' if difference[0] >= 0 else ''}{_plus_minus(*difference, by)})"

    def page(self) -> str:
        """The comparison as one self-contained HTML file."""
        workload = self.runs[0].workload
        title = f"Comparison of {len(self.runs)} runs: {workload}"
        heads = [("", ""), *((label, "n") for label in self.labels)]
        options = [(name, *values) for name, values in self.differing.items()]
        drawings = rendered(title, lambda: {"compared": draw_comparison(self)})
        runs = [_run_cells(run, label) for run, label in zip(self.runs, self.labels, strict=True)]
        header = tag("header", tag("h1", title), table(_RUN_HEADS, runs, "Runs"))
        body: list[Markup | None] = [
            tag("h2", "Options that differ") if options else None,
            table([("", ""), *((label, "") for label in self.labels)], options, "Options")
            if options
            else None,
            tag("h2", "What was measured"),
            tag(
                "p",
                f"In brackets: the difference to {self.labels[0]}, with its 95 % interval if both are known.",
            ),
            table(heads, self.cells(), "Figures"),
            tag("p", f"{self.zero_line}.", class_="soft") if self.zero_line else None,
            *(
                picture(drawing, caption_in(drawing, name), class_="across")
                for name, drawing in drawings.items()
            ),
        ]
        footer = page_footer("Made from stored runs; ", "testbed compare")
        return whole_page(page_head(title), header, tag("main", body), footer)


_RUN_HEADS = [
    ("run", ""),
    ("verdict", ""),
    ("checks that hold", ""),
    ("seed", "n"),
    ("stored as", ""),
    ("machine", ""),
]


def _run_cells(run: ComparedRun, label: str) -> tuple[object, ...]:
    verdict = badge(state_of(run.verdict), small=True)
    return label, verdict, _holding(run), run.seed, run.label, run.machine


def _holding(run: ComparedRun) -> str:
    """Return the number of checks that hold, in words."""
    checks = () if run.verdict is None else run.verdict.checks
    return f"{sum(check.passed for check in checks)} of {len(checks)}"


def _settings(options: Iterable[str]) -> dict[str, str]:
    """Return the options by name; words without a name are numbered."""
    settings: dict[str, str] = {}
    positions = count(1)
    for option in options:
        name, _, value = option.partition(" ")
        if name.startswith("--"):
            name, _, joined = name.partition("=")
            value = joined or value
            value = f"{settings[name]} {value}" if name in settings else value
        elif not value:
            name, value = f"argument {next(positions)}", name
        settings[name] = value
    return settings


def _as_label(name: str, value: str) -> str:
    """Return a short name of a run with this option: a value that speaks for itself, or name and value.

    >>> _as_label("--routing", "ecmp"), _as_label("--routing", "./mine.py:inverse"), _as_label("--seed", "2")
    ('ecmp', 'inverse', 'seed 2')
    """
    name = name.removeprefix("--")
    if not value:
        return name
    if value == "default":
        return f"default {name}"
    path, _, member = value.rpartition(":")
    if path.endswith(".py"):
        return member
    if not value[0].isdigit():
        return value.rpartition("/")[2] or value
    return value if name.startswith("argument") else f"{name} {value}"


def _heading(name: str, figures: Sequence[Figure]) -> tuple[str, float]:
    """Return the heading of a row with its unit, and what its values are divided by."""
    heading, by = column(name, [])
    if field_name := next((one.field for one in figures), ""):
        heading, by = column(field_name, [one.value for one in figures])
        heading += name.removeprefix(field_name)
    return re.sub(r" (\w+):(?=\w)", r", \1 ", heading), by


def compared(
    manifest: Manifest,
    verdict: Verdict,
    rows: Sequence[Json],
    label: str = "",
    options: Iterable[str] = (),
    defaults: Mapping[str, str] | None = None,
) -> ComparedRun:
    """A run as it is compared: figures of its checks and, of its rows, the fields that are numbers."""
    words = tuple(options) or _options(manifest.command)
    machine = manifest.machine
    return ComparedRun(
        label=label or manifest.run,
        workload=manifest.name,
        verdict=verdict,
        options=words,
        defaults=defaults or {},
        seed=manifest.seed,
        machine=", ".join(
            str(machine[name]) for name in ("architecture", "kernel") if machine.get(name)
        ),
        figures={**_of_checks(verdict.checks), **_of_rows(rows)},
    )


def compare_methods(
    workload: str, rows: Sequence[Json], of: Sequence[str], by: Sequence[str] = ()
) -> Comparison | None:
    """The ``method`` of rows beside each other by their fields ``of``, where the fields ``by`` tell several rows of one
    method apart; None where there is one method alone."""
    methods: dict[str, dict[str, Figure]] = {}
    for row in rows:
        place = ", ".join(
            f"{name} {cell(row.get(name))}"
            for name in by
            if len({str(one.get(name)) for one in rows}) > 1
        )
        for name in of:
            if isinstance(row.get(name), (int, float)):
                figure = Figure(value=row[name], field=name)
                methods.setdefault(str(row.get("method")), {})[
                    f"{name} [{place}]" if place else name
                ] = figure
    runs = tuple(
        ComparedRun(label=label, workload=workload, figures=found)
        for label, found in methods.items()
    )
    return Comparison(runs=runs) if len(runs) > 1 else None


def _options(command: str) -> tuple[str, ...]:
    """The words of a command line, an option with its values as one."""
    try:
        words = shlex.split(command)
    except ValueError:
        words = command.split()
    found: list[str] = []
    for word in words:
        if word.startswith("--") or not found or not found[-1].startswith("--"):
            found.append(word)
        else:
            found[-1] += f" {word}"
    return tuple(found)


def _of_checks(checks: Sequence[Check]) -> dict[str, Figure]:
    """Return what each check measured, by a name that is the same in every run."""
    parts = _part_names(checks)
    figures = {}
    for check in checks:
        if check.measured is None:
            continue
        half = None if check.interval is None else (check.interval[1] - check.interval[0]) / 2
        key = check.key.replace("-", " ") or check.name
        name = f"{key}, {parts[check.about]}" if check.about in parts else f"{key} {check.about}"
        kind = key if check.about else ""
        figures[name.rstrip()] = Figure(
            value=check.measured, half=half, predicted=check.predicted, kind=kind
        )
    return figures


def _part_names(checks: Sequence[Check]) -> dict[str, str]:
    """Return the name of each fault that checks are about: link and kind, as its checks name it.

    A fault's number differs between runs, because a route decides which links carry the stream. A
    fault that occurs again is numbered.
    """
    names: dict[str, str] = {}
    occurrences: Counter[str] = Counter()
    for check in checks:
        session, _, part = check.about.rpartition("/")
        text = check.name.rpartition(": ")[2].partition(", ")[2]
        if not text or check.about in names or not part.startswith("fault:"):
            continue
        if session:
            text = f"{session.replace('session:', 'stream ')}, {text}"
        occurrences[text] += 1
        again = f" ({occurrences[text]})" if occurrences[text] > 1 else ""
        names[check.about] = text + again
    return names


def _of_rows(rows: Sequence[Json]) -> dict[str, Figure]:
    """Means over rows that differ in numbers alone, with their intervals; what tells the others apart names them."""
    distinguishing = [
        name for name in (rows[0] if rows else {}) if len({str(row.get(name)) for row in rows}) > 1
    ]
    distinguishing = [
        name
        for name in distinguishing
        if all(isinstance(row.get(name), (str, bool)) for row in rows)
    ]
    found = {}
    for kind, alike in grouped(
        rows, lambda row: ", ".join(str(row[name]) for name in distinguishing)
    ).items():
        for name in alike[0]:
            values = [row.get(name) for row in alike]
            if name != "seed" and all(_is_number(value) for value in values):
                half = half_width(values) if len(values) > 1 else None
                words = f"{name} [{kind}]" if kind else name
                found[words] = Figure(value=sum(values) / len(values), half=half, field=name)
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _plus_minus(value: float, half: float | None, by: float) -> str:
    return cell(value, by) + (f" ± {half / by:.2g}" if half is not None else "")


def draw_comparison(of: Comparison, runs: str = "runs") -> charts.Figure:
    """A panel a figure, a bar a run with its value; whiskers are 95 % intervals."""
    both = [
        name
        for name in of.shown_names
        if sum(one is not None and one.value != 0 for one in of.of_all(name)) > 1
    ]
    names = (both or of.shown_names)[:MOST_DRAWN]
    columns = min(4, len(names)) or 1
    lines = math.ceil(len(names) / columns) or 1
    figure, panel = panels(
        2.2 + 2.4 * columns, (0.7 + 0.3 * len(of.runs)) * lines, lines, columns, sharey=True
    )
    for axes, name in zip_longest(panel, names):
        axes.set_axis_off()
        if name is not None:
            _draw_panel(axes, of, name)
    panel[0].set_ylim(len(of.runs) - 0.5, -0.5)
    whiskers = "; whiskers: 95 % intervals" * any(
        one.half for run in of.runs for one in run.figures.values()
    )
    figure.set_label(f"{len(of.runs)} {runs} by {len(names)} figures, each from 0{whiskers}")
    return figure


def _draw_panel(axes: Axes, of: Comparison, name: str) -> None:
    values = [
        one.value if one is not None and math.isfinite(one.value) else 0.0
        for one in of.of_all(name)
    ]
    reach = [one.half or 0.0 if one is not None else 0.0 for one in of.of_all(name)]
    axes.barh(range(len(values)), values, 0.6, xerr=reach if any(reach) else None, color=HUES[0])
    axes.set_xlim(
        min(0.0, 1.6 * min(values)),
        1.6 * max(a + b for a, b in zip(values, reach, strict=True)) or 1.0,
    )
    axes.set_title(of.row(name)[0], loc="left", fontweight="bold")
    for k, words in enumerate(of.row(name)[1:]):
        label = f" {words.partition(' (')[0]}"
        axes.text(
            max(values[k] + reach[k], 0.0), k, label, va="center", fontsize=8, color=LIGHT["ink"]
        )
        if (place := axes.get_subplotspec()) is not None and place.is_first_col():
            axes.text(0, k, f"{of.labels[k]}  ", va="center", ha="right", color=LIGHT["ink"])
