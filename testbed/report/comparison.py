"""Runs of one workload side by side: what was measured in each, by how much they differ, what differs in how they were
made."""

import math
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path

from testbed.errors import InputError
from testbed.model.run_records import Manifest
from testbed.model.studies.samples import grouped, half_width
from testbed.model.verdict import Check, Verdict
from testbed.report.answers import Table
from testbed.report.column_units import cell, column
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


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure: ``half`` the half width of its 95 % interval where that is known, ``predicted`` what theory
    says where it says something, ``field`` the row's field that it is (its unit ends the name) or empty."""

    value: float
    half: float | None = None
    predicted: float | None = None
    field: str = ""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One run. ``options``: what its plan was made of, in words, one each; ``figures``: name -> what was measured."""

    label: str
    workload: str
    figures: Mapping[str, Figure]
    verdict: Verdict | None = None
    options: tuple[str, ...] = ()
    seed: int = 1
    machine: str = ""


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
        """Of the figures that any run has: those with a prediction first, and none that is the same in all."""
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
        return tuple(sorted(shown, key=lambda name: name not in predicted))

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

    @property
    def differing_options(self) -> list[tuple[str, ...]]:
        """What the runs were made of where that differs, a column a run."""
        common = set.intersection(*(set(run.options) for run in self.runs))
        own = [[word for word in run.options if word not in common] for run in self.runs]
        return list(zip_longest(*own, fillvalue=""))

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
                    "state": state_of(run.verdict),
                    "seed": run.seed,
                    "options": list(run.options),
                }
                for run in self.runs
            ],
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
        return [self.row(name) for name in self.names]

    def as_table(self) -> Table:
        """What each measured, and in brackets its difference to the first."""
        heads = ("", *(run.label for run in self.runs))
        title = f"beside {self.runs[0].label} (in brackets: the difference)"
        return Table(
            name="comparison",
            title=title,
            headings=heads,
            rows=self.cells(),
            summary=True,
            wide=True,
        )

    def row(self, name: str) -> tuple[str, ...]:
        """Heading, and for each run value and difference in words, in one unit."""
        figures = [run.figures[name] for run in self.runs if name in run.figures]
        heading, by = column(name, [])
        if field := figures[0].field:
            heading, by = column(field, [one.value for one in figures])
            heading += name.removeprefix(field)
        return re.sub(r" (\w+):(?=\w)", r", \1 ", heading), *(
            self._words(name, run, by) for run in self.runs
        )

    def of_all(self, name: str) -> list[Figure | None]:
        """The figure of each run."""
        return [run.figures.get(name) for run in self.runs]

    def _words(self, name: str, run: ComparedRun, by: float) -> str:
        if (found := run.figures.get(name)) is None:
            return "-"
        words, difference = _plus_minus(found.value, found.half, by), self.difference(name, run)
        if run is self.runs[0] or difference is None:
            return words
        return f"{words} ({'+' if difference[0] >= 0 else ''}{_plus_minus(*difference, by)})"

    def page(self) -> str:
        """The comparison as one self-contained HTML file."""
        workload = self.runs[0].workload
        title = f"Comparison of {len(self.runs)} runs: {workload}"
        heads = [("", ""), *((run.label, "n") for run in self.runs)]
        options = [("", *words) for words in self.differing_options]
        drawings = rendered(title, lambda: {"compared": draw_comparison(self)})
        header = tag(
            "header", tag("h1", title), table(_RUN_HEADS, map(_run_cells, self.runs), "Runs")
        )
        body: list[Markup | None] = [
            tag("h2", "What differs in how they were made") if options else None,
            table([("", ""), *((run.label, "") for run in self.runs)], options, "Options")
            if options
            else None,
            tag("h2", "What was measured"),
            tag(
                "p",
                "In brackets: the difference to the first run, with its 95 % interval where both are known.",
            ),
            table(heads, self.cells(), "Figures"),
            *(
                picture(drawing, caption_in(drawing, name), class_="across")
                for name, drawing in drawings.items()
            ),
        ]
        return whole_page(
            page_head(title), header, tag("main", body), page_footer("Generated from stored runs; ")
        )


_RUN_HEADS = [
    ("run", ""),
    ("verdict", ""),
    ("checks that hold", ""),
    ("seed", "n"),
    ("machine", ""),
]


def _run_cells(run: ComparedRun) -> tuple[object, ...]:
    checks = () if run.verdict is None else run.verdict.checks
    holding = f"{sum(check.passed for check in checks)} of {len(checks)}"
    return run.label, badge(state_of(run.verdict), small=True), holding, run.seed, run.machine


def compared(
    manifest: Manifest,
    verdict: Verdict,
    rows: Sequence[Json],
    label: str = "",
    options: Iterable[str] = (),
) -> ComparedRun:
    """A run as it is compared: figures of its checks and, of its rows, the fields that are numbers."""
    words = tuple(options) or _options(manifest.command)
    machine = manifest.machine
    return ComparedRun(
        label=label or manifest.run,
        workload=manifest.name,
        verdict=verdict,
        options=words,
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


def _of_checks(checks: Iterable[Check]) -> dict[str, Figure]:
    found = {}
    for check in checks:
        if check.measured is not None:
            half = None if check.interval is None else (check.interval[1] - check.interval[0]) / 2
            name = " ".join(filter(None, (check.key.replace("-", " ") or check.name, check.about)))
            found[name] = Figure(value=check.measured, half=half, predicted=check.predicted)
    return found


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
        for name in of.names
        if sum(one is not None and one.value != 0 for one in of.of_all(name)) > 1
    ]
    names = (both or of.names)[:MOST_DRAWN]
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
            axes.text(0, k, f"{of.runs[k].label}  ", va="center", ha="right", color=LIGHT["ink"])
