"""Generates parts of the site from declarations and stored runs when it is built.

A line ``<!-- generated: KIND WORDS -->`` of a page is replaced by the Markdown text that
``KINDS[KIND](WORDS)`` returns.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from gallery import EXAMPLES  # noqa: E402

import testbed  # noqa: E402
from testbed.cli import build_parser  # noqa: E402
from testbed.commands.command_list import COMMANDS  # noqa: E402
from testbed.commands.help_pages import by_subject  # noqa: E402
from testbed.commands.studies.book import book_chapters, register_of  # noqa: E402
from testbed.model.schemas import KINDS as FILES  # noqa: E402
from testbed.model.schemas import schema_of  # noqa: E402
from testbed.model.stored_runs import StoredRun  # noqa: E402
from testbed.report.book import (  # noqa: E402
    COLUMNS,
    Chapter,
    Entry,
    check_cells,
    command_of,
    counts_in_words,
    facts_of,
    size_in_words,
    tally,
)
from testbed.report.register import Row, counts_by_chapter, outcome_in_words  # noqa: E402
from testbed.report.register import counts as counts_of  # noqa: E402
from testbed.results.study_store import STORED  # noqa: E402
from topologies.catalog import COMMON, catalogue  # noqa: E402

MARK = re.compile(r"^<!-- generated: (\w+) ?(.*?) -->$", re.MULTILINE)
DOCUMENTS = {
    "000": "Gabrielyan 2007",
    "001": "Gabrielyan 2006",
    "002": "Gabrielyan and Hersch 2002",
    "003": "Zarza 2011",
}
OF_CLAIMS = ("where", "page", "claim", "stands", "shown by", "outcome", "why, where not in full")
OVERVIEW = ("study", "size of the run", "verdict", "hold", "fail", "cannot tell", "command")
LINK = re.compile(r"\[([^\]]+)\]\(([^)\s]+)\)")


def filled(page: str) -> str:
    """Return a page with its generated parts."""
    return MARK.sub(lambda found: KINDS[found[1]](found[2]), page)


def command(name: str) -> str:
    """Return the help of a command: its purpose, options and defaults."""
    parsers = {f"testbed {name}": _parser(name)}
    for action in parsers[f"testbed {name}"]._actions:
        if isinstance(action, argparse._SubParsersAction):
            parsers |= {f"testbed {name} {word}": one for word, one in action.choices.items()}
    parts = []
    for words, parser in parsers.items():
        heading = [f"## {words}", ""] if words != f"testbed {name}" else []
        parts += [
            *heading,
            _text(parser.description or ""),
            "",
            *_arguments(parser, "###" if heading else "##"),
            "",
        ]
    example = next(
        (
            line
            for line in parsers[f"testbed {name}"].format_help().splitlines()
            if "example: " in line
        ),
        "",
    )
    if example:
        parts[2:2] = ["```console", f"$ {example.removeprefix('example: ')}", "```", ""]
    return "\n".join(parts)


def commands(_: str = "") -> str:
    """Return a table with one row per command: its summary and its page."""
    rows = [
        (f"[`{name}`](commands/{name}.md)", one.purpose, _text(one.summary))
        for name, one in COMMANDS.items()
    ]
    return "\n".join(_table(("command", "to", "it can"), rows))


def stored(page: str) -> str:
    """Return the checks of the stored runs of a replication page's studies."""
    entries = [entry for chapter in _book() for entry in chapter.entries if entry.page == page]
    ran = [(entry, entry.run) for entry in entries if entry.run is not None]
    missing = [f"{_text(entry.heading)} (`{entry.name}`)" for entry in entries if entry.run is None]
    parts = [
        " ".join(counts_in_words(entries)),
        "",
        *_table(OVERVIEW, (_overview(entry, run) for entry, run in ran)),
    ]
    parts += [words for entry, run in ran for words in ("", _study(entry, run))]
    return "\n".join([*parts, *(["", f"No stored run: {'; '.join(missing)}."] if missing else [])])


def counts(_: str = "") -> str:
    """Return how many studies ran at which size, and the outcomes of their checks."""
    return " ".join(
        counts_in_words([entry for chapter in _book() for entry in chapter.entries if entry.page])
    )


def proved(_: str = "") -> str:
    """Return a sentence with the counts of the studies that ran at full size."""
    runs = [
        entry.run
        for chapter in _book()
        for entry in chapter.entries
        if entry.page and entry.run is not None
    ]
    found = tally(full := [run for run in runs if run.size == "full" and run.verdict is not None])
    words = f"{len(full)} of {len(runs)} studies have run at the size that they claim; of their {found['checks']} checks"
    return f"{words} {found['hold']} hold, {found['fail']} fail and {found['cannot tell']} cannot tell."


def register(_: str = "") -> str:
    """Return every claim of the documents with the outcome of its checks."""
    rows = register_of(_book())
    named = {**counts_by_chapter(rows), "all": counts_of(rows)}
    lines = _table(
        ("", *counts_of([])), [(name, *map(str, found.values())) for name, found in named.items()]
    )
    for document, title in DOCUMENTS.items():
        lines += [
            "",
            f"## {title}",
            "",
            *_table(OF_CLAIMS, (_claim(row) for row in rows if row.document == document)),
        ]
    return "\n".join(lines)


def _claim(row: Row) -> tuple[str, ...]:
    shown = [*row.studies, *(one.command for one in row.shown if not one.study)]
    named = ", ".join(f"`{words}`" for words in shown)
    page, standing = "" if row.page is None else str(row.page), row.standing.replace("-", " ")
    return row.where, page, row.claim, standing, named, outcome_in_words(row), row.note


def networks(_: str = "") -> str:
    """Return a table with one row per parameter of every family of networks."""
    common = "; ".join(f"`{p.name}={p.default}` {p.description}" for p in COMMON)
    rows = (
        (
            f"`{one.pattern}`",
            _text(one.description),
            "; ".join(_parameter(p) for p in one.parameters),
        )
        for one in catalogue()
    )
    return "\n".join(
        [*_table(("name", "what it is", "parameters"), rows), "", f"All but topohub: {common}."]
    )


def schemas(_: str = "") -> str:
    """Return one section per kind of file: its keys, and the address of its JSON Schema."""
    parts = []
    for kind in FILES:
        schema = schema_of(kind)
        parts += [
            f"## {kind}",
            "",
            _text(schema["title"]) + ": " + _text(schema["description"]),
            "",
        ]
        place = f"../_static/schemas/{kind}.schema.json"
        parts += [
            f'<a href="{place}">{kind}.schema.json</a>, as `testbed schema {kind}` prints it.',
            "",
        ]
        parts += [*_table(("object", "key", "value", ""), _keys(schema)), ""]
    return "\n".join(parts)


def growth(_: str = "") -> str:
    """Return a table with one row per command: time and memory at three sizes, and growth."""
    found = json.loads((ROOT / "benchmarks/growth.json").read_text(encoding="utf-8"))
    rows = []
    for row in found["commands"].values():
        words = row["words"].replace("{n}", "N").replace("{file}", "FILE")
        sizes = " / ".join(format(run["size"], ",") for run in row["runs"])
        times = (
            "over the limit" if run["code"] < 0 else format(run["seconds"], "g")
            for run in row["runs"]
        )
        memory = " / ".join(format(run["mb"], ",") for run in row["runs"])
        exponents = (
            "-" if row.get(name) is None else f"{row[name]:.1f}"
            for name in ("time_exponent", "memory_exponent")
        )
        measured = f"{row['day']}, load {row['load']:g}"
        cells = (
            f"`{words}`",
            f"{sizes} {row['unit']}",
            " / ".join(times),
            memory,
            *exponents,
            _limit(row),
        )
        rows.append((*cells, row["beyond"], measured))
    head = (
        "command",
        "sizes",
        "processor s",
        "MB",
        "time",
        "memory",
        "fills 24 GB",
        "beyond",
        "measured",
    )
    idle = f"A command that does nothing takes {found['idle']['seconds']:g} s and {found['idle']['mb']} MB"
    return "\n".join(
        [f"{idle} ({found['machine']}, Python {found['python']}).", "", *_table(head, rows)]
    )


def _limit(row: dict[str, Any]) -> str:
    """Return the size that fills the memory, and whether it would take more than a day."""
    if "fits" not in row:
        return "-"
    digits = 10 ** max(0, len(str(int(row["fits"]))) - 1)
    days = row["fits_s"] / 86_400
    return f"{round(row['fits'] / digits) * digits:,}" + (
        f"; time ends it: {days:,.0f} days" if days > 1 else ""
    )


def changes(_: str = "") -> str:
    """Return the change log, with links as seen from the site."""

    def link(found: re.Match[str]) -> str:
        text, target = found[1], found[2]
        if target.startswith("http"):
            return found[0]
        path = target.partition("#")[0]
        there = path.startswith("docs/") and (ROOT / path).is_file()
        return (
            f"[{text}](../{target.removeprefix('docs/')})" if there and "#" not in target else text
        )

    return LINK.sub(link, (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").partition("\n")[2])


def api(_: str = "") -> str:
    """Return the documentation of every public name of ``testbed``."""
    kinds = {
        name: "class" if isinstance(getattr(testbed, name), type) else "function"
        for name in testbed.__all__
    }
    lines = [
        f".. auto{kind}:: testbed.{name}\n{'   :members:' if kind == 'class' else ''}"
        for name, kind in kinds.items()
    ]
    if "EachLink" not in testbed.__all__:  # of ``stream_plan(faults=...)``
        lines.append(".. autoclass:: testbed.stream.planning.EachLink\n   :members:\n")
    return "\n".join(["```{eval-rst}", *lines, "```"])


def gallery(_: str = "") -> str:
    """Return a picture and a command for each example."""
    parts = []
    for name, one in EXAMPLES.items():
        parts += [f"## {one.title}", "", "```console", f"$ testbed {one.command}", "```", ""]
        parts += [
            f"![{one.caption}](../pictures/{name}.svg)",
            "",
            f"{one.caption} [More](../{one.page}).",
            "",
        ]
    return "\n".join(parts)


def publish_schemas(folder: Path) -> None:
    """Write one JSON Schema per kind of file, for editors."""
    folder.mkdir(parents=True, exist_ok=True)
    for kind in FILES:
        schema = json.loads(json.dumps(schema_of(kind)))
        for one in [schema, *schema.get("anyOf", [])]:
            if "properties" in one:
                one["properties"]["$schema"] = {"type": "string"}
        (folder / f"{kind}.schema.json").write_text(
            json.dumps(schema, indent=1) + "\n", encoding="utf-8"
        )


@cache
def _book() -> list[Chapter]:
    return book_chapters(ROOT / STORED)


def _parser(name: str) -> argparse.ArgumentParser:
    top = build_parser(name)
    return next(a.choices[name] for a in top._actions if isinstance(a, argparse._SubParsersAction))  # type: ignore[no-any-return]


def _arguments(parser: argparse.ArgumentParser, level: str) -> list[str]:
    lines: list[str] = []
    for group in parser._action_groups:
        own = [
            a
            for a in group._group_actions
            if not isinstance(a, argparse._SubParsersAction) and a.dest != "help"
        ]
        for heading, actions in (
            by_subject(own) if group is parser._optionals else [(group.title, own)]
        ):
            rows = [
                (_spelled(a), _text((a.help or "") % {"default": a.default, "prog": parser.prog}))
                for a in actions
            ]
            title = heading or "options"
            lines += (
                [
                    f"### {title[:1].upper() + title[1:]}",
                    "",
                    *_table(("option", "what it does"), rows),
                    "",
                ]
                if rows
                else []
            )
    return lines


def _spelled(action: argparse.Action) -> str:
    value = action.metavar or (
        ("{" + ",".join(map(str, action.choices)) + "}") if action.choices else ""
    )
    value = (
        " ".join(value)
        if isinstance(value, tuple)
        else value or (action.dest.upper() if action.nargs != 0 else "")
    )
    words = ", ".join(f"`{option}`" for option in action.option_strings)
    return f"{words} `{value}`" if words and value else words or f"`{value}`"


def _overview(entry: Entry, run: StoredRun) -> tuple[str, ...]:
    counts = tally([run])
    outcomes = [str(counts[name]) for name in ("hold", "fail", "cannot tell")]
    return (
        _text(entry.heading),
        size_in_words(run),
        run.state.replace("-", " "),
        *outcomes,
        f"`{command_of(run)}`",
    )


def _study(entry: Entry, run: StoredRun) -> str:
    lines = [f"### {_text(entry.heading)}: {run.state.replace('-', ' ')}", ""]
    lines += [f"{_text(entry.answers)}. {'; '.join(facts_of(run))}.", ""]
    deviations = run.manifest.study.get("deviations") or []
    if deviations:
        lines += [*(f"- Differs from the document: {_text(words)}" for words in deviations), ""]
    if run.verdict is not None and run.verdict.invalid is not None:
        lines += [f"Invalid: {run.verdict.invalid}", ""]
    if run.verdict is not None and run.verdict.checks:
        lines += _table(
            COLUMNS, [[_text(cell) for cell in check_cells(check)] for check in run.verdict.checks]
        )
    return "\n".join(lines).rstrip("\n")


def _parameter(one: Any) -> str:
    return f"`{one.name}{'=' + one.default if one.default is not None else ''}` {_text(one.description)}"


def _keys(schema: dict[str, Any]) -> Iterable[Sequence[str]]:
    """Yield object, key, kind of value and description for each key of a schema.

    Required keys are bold.
    """
    for name, one in {"": schema, **schema.get("$defs", {})}.items():
        for each in [one, *one.get("anyOf", []), *one.get("oneOf", [])]:
            for key, value in each.get("properties", {}).items():
                shown = f"**`{key}`**" if key in each.get("required", ()) else f"`{key}`"
                yield name, shown, _kind(value), _text(str(value.get("description", "")))


def _kind(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    if "enum" in value:
        return ", ".join(f"`{word}`" for word in value["enum"])
    if "anyOf" in value or "oneOf" in value:
        return " or ".join(
            filter(None, (_kind(one) for one in value.get("anyOf") or value["oneOf"]))
        )
    kind = value.get("type", "")
    kinds = kind if isinstance(kind, str) else " or ".join(kind)
    return (
        f"{kinds} of {_kind(value['items'])}"
        if "items" in value and _kind(value["items"])
        else kinds
    )


def _text(words: str) -> str:
    """Return a text with Markdown's special characters escaped."""
    return re.sub(r"([*_<>\[\]|$])", r"\\\1", " ".join(words.split()))


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    lines = [
        "| " + " | ".join(re.sub(r"(?<!\\)\|", r"\\|", cell) for cell in row) + " |" for row in rows
    ]
    return ["| " + " | ".join(columns) + " |", "|" + "---|" * len(columns), *lines]


KINDS: dict[str, Callable[[str], str]] = {
    one.__name__: one
    for one in (
        command,
        commands,
        stored,
        counts,
        proved,
        register,
        networks,
        schemas,
        changes,
        api,
        gallery,
        growth,
    )
}
