"""Comparison of runs of one workload: figures, their differences, and the options that differ.

A figure is here a number of a run: the measured value of a check, or a value of its rows.
"""

import math
import re
import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain, compress, count, zip_longest
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

# A difference below this share of a figure is a rounding error, and counts as 0.
_ROUNDING = 1e-9
# Largest number of figures in the drawing.
MAX_DRAWN = 24
# A label that is a time stamp or a number does not describe the run.
_GENERIC_LABEL = re.compile(r"\d{8}T\d{6}Z.*|run \d+")
# Options that change where a result goes, not what is measured.
_OUTPUT_OPTIONS = {"--results", "--json", "--csv", "--live", "--plot", "--output", "--retries"}
# A longer label, made from option values, is replaced by the number of the run.
MAX_LABEL_CHARACTERS = 24


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One measured figure.

    Attributes:
        value: The measured value.
        half: Half width of its 95 % interval, or None if it is unknown.
        predicted: The value predicted by theory, or None.
        field: Field of the row that the figure is from, which ends with its unit, or empty.
        kind: The measured quantity if several parts of a run have it, such as the loss of each
            fault; else empty.
    """

    value: float
    half: float | None = None
    predicted: float | None = None
    field: str = ""
    kind: str = ""


@dataclass(frozen=True, kw_only=True)
class ComparedRun:
    """One of the compared runs.

    Attributes:
        label: Name of the run.
        workload: Name of the workload.
        figures: The measured figures by name.
        verdict: The verdict, or None.
        options: The options of the run, each with its value in one text.
        seed: Seed of the run.
        machine: Architecture and kernel of the machine.
        defaults: Values of options that are not among ``options``.
    """

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
    """Two or more runs of one workload, compared with the first of them."""

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
        names: dict[str, None] = {}
        predicted = set()
        kinds = {}
        for run in self.runs:
            for name, figure in run.figures.items():
                names[name] = None
                if figure.predicted is not None:
                    predicted.add(name)
                if figure.kind:
                    kinds[name] = figure.kind
        shown = [name for name in names if name in predicted or self._varies(name)]
        kind_order = list(dict.fromkeys(kinds[name] for name in shown if name in kinds))

        def position(name: str) -> tuple[bool, int]:
            kind = kinds.get(name)
            kind_position = -1 if kind is None else kind_order.index(kind)
            return name not in predicted, kind_position

        return tuple(sorted(shown, key=position))

    def _varies(self, name: str) -> bool:
        """Return whether the figure differs between runs, or is missing in some."""
        values = {figure and figure.value for figure in self.of_all(name)}
        return len(values) > 1

    @cached_property
    def shown_names(self) -> tuple[str, ...]:
        """The names of the figures that are not 0 in every run."""
        names = []
        for name in self.names:
            if any(figure is not None and figure.value != 0 for figure in self.of_all(name)):
                names.append(name)
        return tuple(names)

    @property
    def zero_line(self) -> str:
        """The line that names the figures omitted because they are 0 in every run, or empty."""
        left_out = [name for name in self.names if name not in self.shown_names]
        counts = Counter(self._kind(name) for name in left_out)
        texts = []
        for name, occurrences in counts.items():
            texts.append(name if occurrences == 1 else f"{name} ({occurrences} times)")
        return f"0 in every run: {', '.join(texts)}" if texts else ""

    def _kind(self, name: str) -> str:
        figures = [figure for figure in self.of_all(name) if figure is not None]
        return figures[0].kind or _heading(name, figures)[0]

    @cached_property
    def differing(self) -> dict[str, tuple[str, ...]]:
        """The options whose values differ: option -> its value in each run.

        An option that no run sets, and an option that only changes the output, is left out.
        """
        settings = [{**run.defaults, **_settings(run.options)} for run in self.runs]
        differing = {}
        for name in dict.fromkeys(chain.from_iterable(settings)):
            values = tuple(run_settings.get(name, "default") for run_settings in settings)
            is_set = any(name in _settings(run.options) for run in self.runs)
            if is_set and name not in _OUTPUT_OPTIONS and len(set(values)) > 1:
                differing[name] = values
        return differing

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each run: its label, or the values of the options that differ."""
        names = []
        for number, run in enumerate(self.runs):
            texts = [_as_label(name, values[number]) for name, values in self.differing.items()]
            label = ", ".join(texts)
            if not _GENERIC_LABEL.fullmatch(run.label):
                label = run.label
            elif not label or len(label) > MAX_LABEL_CHARACTERS:
                label = f"run {number + 1}"
            names.append(label)
        counts = Counter(names)
        unique_names = []
        for number, name in enumerate(names, start=1):
            unique_names.append(name if counts[name] == 1 else f"{name}, run {number}")
        return tuple(unique_names)

    def difference(self, name: str, run: ComparedRun) -> tuple[float, float | None] | None:
        """Return the difference of a figure to the first run.

        Args:
            name: Name of the figure.
            run: The run that is compared with the first.

        Returns:
            The difference and the half width of its 95 % interval, which is None unless both runs
            have one. None if one of the runs has no finite value.
        """
        first = self.runs[0].figures.get(name)
        this = run.figures.get(name)
        if first is None or this is None:
            return None
        if not math.isfinite(first.value) or not math.isfinite(this.value):
            return None
        difference = this.value - first.value
        if abs(difference) <= _ROUNDING * abs(first.value):
            difference = 0.0
        if first.half is None or this.half is None:
            return difference, None
        return difference, math.hypot(first.half, this.half)

    def save(self, path: str | Path) -> Path:
        """Write the page of the comparison as one HTML file, and create its folder if necessary.

        Raises:
            TopologyError: The file cannot be written.
        """
        file = Path(path)
        # If the folder cannot be created, writing the file reports the error.
        with suppress(OSError):
            file.parent.mkdir(exist_ok=True)
        write_atomically(file, self.page().encode())
        return file

    def to_json(self) -> JsonObject:
        """Return the runs, the options that differ, and the figures with their differences."""
        runs = []
        for run, label in zip(self.runs, self.labels, strict=True):
            runs.append(
                {
                    "run": run.label,
                    "label": label,
                    "state": state_of(run.verdict),
                    "seed": run.seed,
                    "options": list(run.options),
                }
            )
        figures = []
        for name in self.names:
            values = [self._figure_json(name, run) for run in self.runs]
            figures.append({"figure": name, "runs": values})
        return {
            "workload": self.runs[0].workload,
            "runs": runs,
            "differing": {name: list(values) for name, values in self.differing.items()},
            "figures": figures,
        }

    def _figure_json(self, name: str, run: ComparedRun) -> JsonObject | None:
        figure = run.figures.get(name)
        if figure is None:
            return None
        comparison = self.difference(name, run)
        if comparison is None:
            return {"value": figure.value, "half_width": figure.half}
        difference, half = comparison
        return {
            "value": figure.value,
            "half_width": figure.half,
            "predicted": figure.predicted,
            "difference": difference,
            "difference_half_width": half,
            "differs": None if half is None else abs(difference) > half,
        }

    def cells(self) -> list[tuple[str, ...]]:
        """Return one row per figure: its heading, then the text of each run."""
        return [self.row(name) for name in self.shown_names]

    def as_table(self) -> Table:
        """Return the figures of each run, with the difference to the first run in brackets.

        As CSV, the table has one number in each cell.
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
        """Return the table for CSV, with value, half width and difference in separate columns.

        Columns without a value are left out.
        """
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
        used = []
        for values in zip(*rows, strict=True):
            used.append(any(value is not None for value in values))
        return Table(
            name="comparison",
            headings=list(compress(headings, used)),
            rows=[list(compress(row, used)) for row in rows],
        )

    def runs_table(self) -> Table:
        """Return the table of the runs: verdict, checks that hold, and where each is stored.

        It contains the options that differ if the labels do not name them.
        """
        numbered = any(re.match(r"run \d+", label) for label in self.labels)
        differing = self.differing if numbered else {}
        rows = []
        for number, run in enumerate(self.runs):
            values = [option_values[number] for option_values in differing.values()]
            stored_as = run.label if _GENERIC_LABEL.fullmatch(run.label) else ""
            row = (self.labels[number], state_of(run.verdict), _holding(run), *values, stored_as)
            rows.append(row)
        headings = ("run", "verdict", "checks that hold", *differing, "stored as")
        spare = ("stored as", "checks that hold")
        return Table(name="runs", headings=headings, rows=rows, summary=True, spare=spare)

    def row(self, name: str) -> tuple[str, ...]:
        """Return the heading of a figure, and for each run its value and difference as text.

        All values have the same unit.
        """
        figures = [figure for figure in self.of_all(name) if figure is not None]
        heading, factor = _heading(name, figures)
        return heading, *(self._cell(name, run, factor) for run in self.runs)

    def of_all(self, name: str) -> list[Figure | None]:
        """Return the figure of each run, None for a run without it."""
        return [run.figures.get(name) for run in self.runs]

    def _cell(self, name: str, run: ComparedRun, factor: float) -> str:
        figure = run.figures.get(name)
        if figure is None:
            return NOTHING
        text = _plus_minus(figure.value, figure.half, factor)
        comparison = self.difference(name, run)
        if run is self.runs[0] or comparison is None or not any(comparison):
            return text
        difference, half = comparison
        sign = "+" if difference >= 0 else ""
        return f"{text} ({sign}{_plus_minus(difference, half, factor)})"

    def page(self) -> str:
        """Return the comparison as one self-contained HTML page."""
        title = f"Comparison of {len(self.runs)} runs: {self.runs[0].workload}"
        runs = [_run_cells(run, label) for run, label in zip(self.runs, self.labels, strict=True)]
        header = tag("header", tag("h1", title), table(_RUN_HEADS, runs, "Runs"))

        body: list[Markup] = []
        if self.differing:
            option_columns = [("", ""), *((label, "") for label in self.labels)]
            options = [(name, *values) for name, values in self.differing.items()]
            body += [tag("h2", "Options that differ"), table(option_columns, options, "Options")]
        remark = (
            f"In brackets: the difference to {self.labels[0]}, with its 95 % interval if both are "
            "known."
        )
        figure_columns = [("", ""), *((label, "n") for label in self.labels)]
        body += [
            tag("h2", "What was measured"),
            tag("p", remark),
            table(figure_columns, self.cells(), "Figures"),
        ]
        if self.zero_line:
            body.append(tag("p", f"{self.zero_line}.", class_="soft"))
        drawings = rendered(title, lambda: {"compared": draw_comparison(self)})
        for name, drawing in drawings.items():
            body.append(picture(drawing, caption_in(drawing, name), class_="across"))

        footer = page_footer("Made from stored runs; ", "testbed compare")
        return whole_page(page_head(title), header, tag("main", body), footer)


# Columns of the table of runs: heading and CSS class.
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
    """Return the number of checks that hold, as in "3 of 4"."""
    checks = () if run.verdict is None else run.verdict.checks
    return f"{sum(check.passed for check in checks)} of {len(checks)}"


def _settings(options: Iterable[str]) -> dict[str, str]:
    """Return the values of the options by name; arguments without a name are numbered."""
    settings: dict[str, str] = {}
    positions = count(1)
    for option in options:
        name, _, value = option.partition(" ")
        if name.startswith("--"):
            name, _, assigned_value = name.partition("=")
            value = assigned_value or value
            # An option that is given several times has all of its values.
            if name in settings:
                value = f"{settings[name]} {value}"
        elif not value:
            value = name
            name = f"argument {next(positions)}"
        settings[name] = value
    return settings


def _as_label(name: str, value: str) -> str:
    """Return a short name for a run with this option: the value if it is a name, or both.

    >>> _as_label("--routing", "ecmp"), _as_label("--routing", "./mine.py:inverse")
    ('ecmp', 'inverse')
    >>> _as_label("--seed", "2")
    'seed 2'
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
    """Return the heading of a figure with its unit, and the factor to divide its values by."""
    heading, factor = column(name, [])
    field_name = figures[0].field if figures else ""
    if field_name:
        heading, factor = column(field_name, [figure.value for figure in figures])
        heading += name.removeprefix(field_name)
    # "loss session:2" becomes "loss, session 2".
    return re.sub(r" (\w+):(?=\w)", r", \1 ", heading), factor


def compared(
    manifest: Manifest,
    verdict: Verdict,
    rows: Sequence[Json],
    label: str = "",
    options: Iterable[str] = (),
    defaults: Mapping[str, str] | None = None,
) -> ComparedRun:
    """Return a run for a comparison, with the figures of its checks and of its rows.

    Args:
        manifest: The manifest of the run.
        verdict: The verdict, whose checks have figures.
        rows: The rows of the run. Their numeric fields are figures.
        label: Name of the run; by default, the name in the manifest.
        options: The options of the run; by default, those of the command in the manifest.
        defaults: Values of options that are not among ``options``.
    """
    machine = manifest.machine
    machine_facts = (machine.get("architecture"), machine.get("kernel"))
    return ComparedRun(
        label=label or manifest.run,
        workload=manifest.name,
        verdict=verdict,
        options=tuple(options) or _options(manifest.command),
        defaults=defaults or {},
        seed=manifest.seed,
        machine=", ".join(str(fact) for fact in machine_facts if fact),
        figures={**_of_checks(verdict.checks), **_of_rows(rows)},
    )


def compare_methods(
    workload: str, rows: Sequence[Json], of: Sequence[str], by: Sequence[str] = ()
) -> Comparison | None:
    """Compare the methods of a workload, each as if it was a run.

    Args:
        workload: Name of the workload.
        rows: Rows with a field ``method``.
        of: The fields that are compared. Values other than numbers are left out.
        by: Fields whose values distinguish the rows of one method.

    Returns:
        The comparison, or None if there are fewer than two methods.
    """
    distinguishing = [name for name in by if _varies_between(rows, name)]
    methods: dict[str, dict[str, Figure]] = {}
    for row in rows:
        case = ", ".join(f"{name} {cell(row.get(name))}" for name in distinguishing)
        for name in of:
            value = row.get(name)
            if isinstance(value, (int, float)):
                figures = methods.setdefault(str(row.get("method")), {})
                figure_name = f"{name} [{case}]" if case else name
                figures[figure_name] = Figure(value=value, field=name)
    if len(methods) < 2:
        return None
    runs = []
    for label, figures in methods.items():
        runs.append(ComparedRun(label=label, workload=workload, figures=figures))
    return Comparison(runs=tuple(runs))


def _varies_between(rows: Sequence[Json], name: str) -> bool:
    """Return whether the rows have different values of a field."""
    return len({str(row.get(name)) for row in rows}) > 1


def _options(command: str) -> tuple[str, ...]:
    """Split a command line into arguments, where an option and its values are one text."""
    try:
        argv = shlex.split(command)
    except ValueError:  # a quotation mark is not closed
        argv = command.split()
    options: list[str] = []
    for argument in argv:
        if argument.startswith("--") or not options or not options[-1].startswith("--"):
            options.append(argument)
        else:
            options[-1] += f" {argument}"
    return tuple(options)


def _of_checks(checks: Sequence[Check]) -> dict[str, Figure]:
    """Return the measured figure of each check, by a name that is the same in every run."""
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
    """Return a name for each fault that checks are about, by the identifier of the fault.

    The name is the link and the kind of the fault, from the name of a check. The number of a fault
    would not do, because the same fault may have another number in another run. The second fault
    with the same link and kind gets the number 2.
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
    """Return the mean of each numeric field over the rows, by name.

    If the rows differ in texts or truth values, there are separate figures for each combination of
    these, whose names contain the combination. Figures of several rows have a 95 % interval.
    """
    distinguishing = []
    for name in rows[0] if rows else ():
        is_text = all(isinstance(row.get(name), (str, bool)) for row in rows)
        if is_text and _varies_between(rows, name):
            distinguishing.append(name)

    def combination(row: Json) -> str:
        return ", ".join(str(row[name]) for name in distinguishing)

    figures = {}
    for kind, alike in grouped(rows, combination).items():
        for name in alike[0]:
            values = [row.get(name) for row in alike]
            if name == "seed" or not all(_is_number(value) for value in values):
                continue
            half = half_width(values) if len(values) > 1 else None
            figure_name = f"{name} [{kind}]" if kind else name
            mean = sum(values) / len(values)
            figures[figure_name] = Figure(value=mean, half=half, field=name)
    return figures


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _plus_minus(value: float, half: float | None, factor: float) -> str:
    """Return a value with the half width of its interval, both divided by the factor."""
    text = cell(value, factor)
    if half is not None:
        text += f" ± {half / factor:.2g}"
    return text


def draw_comparison(of: Comparison, runs: str = "runs") -> charts.Figure:
    """Draw a panel for each figure, with a bar for each run and whiskers for the 95 % intervals.

    Args:
        of: The comparison. Figures that are not 0 in at least two runs are drawn; all, if there
            are none.
        runs: The noun for the runs in the caption.
    """
    names = []
    for name in of.shown_names:
        nonzero = [one for one in of.of_all(name) if one is not None and one.value != 0]
        if len(nonzero) > 1:
            names.append(name)
    names = (names or list(of.shown_names))[:MAX_DRAWN]
    columns = min(4, len(names)) or 1
    rows = math.ceil(len(names) / columns) or 1
    width_inches = 2.2 + 2.4 * columns
    height_inches = (0.7 + 0.3 * len(of.runs)) * rows
    figure, panel = panels(width_inches, height_inches, rows, columns, sharey=True)
    for axes, axes_name in zip_longest(panel, names):
        axes.set_axis_off()
        if axes_name is not None:
            _draw_panel(axes, of, axes_name)
    # The first run is at the top.
    panel[0].set_ylim(len(of.runs) - 0.5, -0.5)
    caption = f"{len(of.runs)} {runs} by {len(names)} figures, each from 0"
    if any(_has_interval(run) for run in of.runs):
        caption += "; whiskers: 95 % intervals"
    figure.set_label(caption)
    return figure


def _has_interval(run: ComparedRun) -> bool:
    return any(figure.half for figure in run.figures.values())


def _draw_panel(axes: Axes, of: Comparison, name: str) -> None:
    values = []
    half_widths = []
    for figure in of.of_all(name):
        value = 0.0
        half = 0.0
        if figure is not None:
            half = figure.half or 0.0
            if math.isfinite(figure.value):
                value = figure.value
        values.append(value)
        half_widths.append(half)
    ends = [value + half for value, half in zip(values, half_widths, strict=True)]
    whiskers = half_widths if any(half_widths) else None
    axes.barh(range(len(values)), values, 0.6, xerr=whiskers, color=HUES[0])
    # The text behind the longest bar needs some room.
    axes.set_xlim(min(0.0, 1.6 * min(values)), 1.6 * max(ends) or 1.0)
    heading, *texts = of.row(name)
    axes.set_title(heading, loc="left", fontweight="bold")
    position = axes.get_subplotspec()
    in_first_column = position is not None and position.is_first_col()
    for index, text in enumerate(texts):
        label = f" {text.partition(' (')[0]}"
        x = max(ends[index], 0.0)
        axes.text(x, index, label, va="center", fontsize=8, color=LIGHT["ink"])
        if in_first_column:
            run_label = f"{of.labels[index]}  "
            axes.text(0, index, run_label, va="center", ha="right", color=LIGHT["ink"])
