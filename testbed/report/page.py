"""The report of a run as one self-contained HTML page: no file, font or address outside it is ever requested."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from importlib.resources import files

from testbed.model.code_description import describe_stream_code
from testbed.model.json_values import json_ready
from testbed.model.run_records import LoadedRun, Manifest, SessionRun
from testbed.model.stored_runs import RunState
from testbed.report.column_units import NOTHING, cell, column, plain, seconds_in_words
from testbed.report.drawing.charts import DARK, LIGHT, custom_properties
from testbed.report.drawing.svg_figures import following_dark_mode
from testbed.report.markup import Markup, join, tag
from testbed.report.sections import (
    PER_PATH,
    badge,
    checks_block,
    explained,
    stream_section,
    table,
    worst_deviation,
)
from testbed.report.wording import (
    ror_is_predicted,
    ror_words,
    run_sentence,
    run_title,
    state_of,
    verdict_reason,
    when,
)
from topologies.text.json_types import Json


def build_page(run: LoadedRun) -> str:
    """The whole page as text. Deterministic: the same records give the same page. Cost: linear in links and bins."""
    manifest = run.manifest
    title = f"{manifest.name} {manifest.run}".strip() or "run"
    head = page_head(f"{state_of(run.verdict).replace('-', ' ').capitalize()}: {title}")
    alone = len(run.sessions) == 1
    sections = [stream_section(part, alone=alone) for part in run.sessions]
    main = tag("main", _overview(run), sections, _closing(run))
    footer = page_footer("Drawn from the records beside this page; ")
    return whole_page(head, _header(run), main, footer)


def whole_page(head: Markup, *body: object, script: str | None = None) -> str:
    """The document of a page; ``script``: another than that of every page."""
    own = tag("script", Markup(page_script() if script is None else script))
    return f"<!doctype html>\n{tag('html', head, tag('body', *body, own), lang='en')}\n"


def page_footer(words: str, command: str = "testbed report") -> Markup:
    """From what a page was made, and how it is made again."""
    return tag(
        "footer", tag("p", words, tag("code", command) if command else None, " generates it again.")
    )


def page_header(
    manifest: Manifest, title: str, state: RunState, counted: Sequence[str], *words: object
) -> Markup:
    """Of a run: when it was, what was ``counted`` and how long it took; its title and how it came out; ``words``; its
    command."""
    moment = when(manifest.started)
    facts = [moment, f"seed {manifest.seed}", *counted]
    if manifest.seconds is not None:
        facts.append(f"took {seconds_in_words(manifest.seconds)}")
    return tag(
        "header",
        tag(
            "p", " · ".join(fact.replace(" ", "\u00a0") for fact in facts if fact), class_="kicker"
        ),
        tag(
            "div",
            tag("h1", title),
            badge(state),
            class_="headline",
        ),
        *words,
        _command(manifest.command) if manifest.command else None,
    )


def _command(command: str) -> Markup:
    """Return the command line, broken between words alone, with a button that copies it."""
    words: list[object] = []
    for word in command.split(" "):
        words += [tag("span", word), " "]
    code = tag("code", *words[:-1], class_="command")
    copy = tag("button", "Copy", type="button", class_="copy", hidden=True)
    return tag("p", "Run again: ", code, " ", copy, class_="soft")


def policy(*scripts: str) -> str:
    """A page's Content-Security-Policy: these scripts, by their hashes, and nobody else's; pictures inside the page;
    nothing from outside."""
    hashes = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts
    ]
    own = " ".join(f"'sha256-{one}'" for one in hashes)
    sources = f"default-src 'none'; script-src {own}; style-src 'unsafe-inline'; img-src data:"
    return f"{sources}; base-uri 'none'; form-action 'none'"


def page_head(title: str, *, style: str = "", forbids: bool = True, plays: bool = False) -> Markup:
    """The head of every page; it forbids the page to ask for anything outside itself, unless its server does.
    ``style``: more rules; ``plays``: clips that lie beside it."""
    content = (
        policy(page_script()) + ("; media-src 'self' file:" if plays else "") if forbids else None
    )
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=content) if content else None,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(page_style() + style)),
    )


def picture(drawing: str, words: str, **attributes: str) -> Markup:
    """An SVG document inside the page, with its caption; ``attributes`` are those of the figure."""
    data = (
        "data:image/svg+xml;base64,"
        + base64.b64encode(following_dark_mode(drawing).encode()).decode()
    )
    style = "max-width:100%;height:auto;border-radius:4px"
    return tag(
        "figure",
        tag("img", src=data, alt=words, style=style),
        tag("figcaption", words),
        **attributes,
    )


def clip(name: str) -> Markup:
    """A moving picture that lies beside the page."""
    video = tag("video", src=name, controls=True, loop=True, muted=True, style="max-width:100%")
    return tag("figure", video, tag("figcaption", tag("a", name, href=name)))


def differences(deviations: Sequence[str]) -> Markup | None:
    """Where a study differs from the document, or nothing."""
    if not deviations:
        return None
    points = tag("ul", [tag("li", words) for words in deviations], class_="plain")
    return join([tag("p", "Where this differs from the document:"), points])


def page_style() -> str:
    """The style sheet of every page, light and dark."""
    light, dark = custom_properties(LIGHT), custom_properties(DARK)
    return (
        f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
        + _resource("page.css")
    )


def page_script() -> str:
    """What every page runs: a fault under the pointer stands out everywhere, and all is open in print."""
    return _resource("page.js")


def _resource(name: str) -> str:
    return files("testbed.report").joinpath(name).read_text(encoding="utf-8")


def _header(run: LoadedRun) -> Markup:
    reason = tag("p", verdict_reason(run.verdict, run.unfinished), class_="lead")
    sentence = tag("p", run_sentence(run))
    return page_header(run.manifest, run_title(run), state_of(run.verdict), (), reason, sentence)


def _overview(run: LoadedRun) -> Markup | None:
    if len(run.sessions) < 2:
        return None
    columns = (
        "Network",
        "Verdict",
        "Route",
        "Faults",
        "Largest deviation of a loss",
        "ROR predicted",
        "ROR measured",
    )
    codes = {
        describe_stream_code(part.session.parameters)
        for part in run.sessions
        if ror_is_predicted(part)
    } - {""}
    note = tag("p", f"ROR: {'; '.join(sorted(codes))}", class_="soft") if codes else None
    kinds = zip(columns, ("", "", "", *"nnnn"), strict=True)
    return Markup(table(kinds, map(_overview_row, run.sessions), "All streams") + (note or ""))


def _overview_row(part: SessionRun) -> tuple[object, ...]:
    session, summary = part.session, part.summary
    worst = worst_deviation(part.faults)
    return (
        tag("a", session.title, href=f"#stream-{session.session}"),
        badge(state_of(summary.verdict if summary else None), small=True),
        f"{session.source} to {session.sink}, {session.method.replace('_', ' ')}",
        len(part.faults),
        NOTHING if worst is None else f"{plain(worst * 100)} points",
        *ror_words(part),
    )


def _closing(run: LoadedRun) -> Markup:
    manifest = run.manifest
    own = [part for part in run.sessions if part.summary is not None]
    return tag(
        "section",
        tag("h2", "The run"),
        # A run's own verdict is the sum of its streams' where it has any, so that it is not listed twice.
        checks_block(run.verdict) if run.verdict is not None and not own else None,
        machine_details(manifest),
        _folded(
            "Machine capabilities", {k: _capability(v) for k, v in manifest.capabilities.items()}
        ),
        [_parameters(part) for part in run.sessions],
        tag("h3", "Records"),
        files_list(
            [
                "manifest.json",
                "measurements.jsonl",
                *(["verdict.json"] if run.verdict is not None else []),
            ]
        ),
        class_="closing",
    )


def machine_details(manifest: Manifest) -> Markup:
    """On what and with what it was run, folded."""
    shown = dict(manifest.machine)
    memory = shown.pop("memory_bytes", None)
    if isinstance(memory, (int, float)):
        shown["memory"] = f"{plain(memory / 2**30, 1)} GiB"
    both = tag("div", fact_list(shown), fact_list(manifest.versions), class_="two")
    return tag("details", tag("summary", "Machine and versions"), both)


def fact_list(facts: Json) -> Markup:
    """Names and values as a definition list."""
    if not facts:
        return tag("p", "Not recorded.", class_="soft")
    return tag(
        "dl",
        [
            join([tag("dt", explained(column(k, [])[0])), tag("dd", cell(v))])
            for k, v in facts.items()
        ],
        class_="facts",
    )


def _capability(entry: object) -> str:
    """Whether the machine has it, and what is said of it."""
    there, detail = (
        (entry.get("available"), entry.get("detail"))
        if isinstance(entry, Mapping)
        else (entry, None)
    )
    return ("✓ yes" if there else "✗ no") + (f": {detail}" if detail else "")


def _folded(title: str, facts: Json) -> Markup | None:
    return tag("details", tag("summary", title), fact_list(facts)) if facts else None


def _parameters(part: SessionRun) -> Markup | None:
    figures = part.summary.figures if part.summary else {}
    facts = {
        **part.session.parameters,
        **{name: value for name, value in figures.items() if name != PER_PATH},
    }
    title = f"Parameters and counts, {part.session.title}"
    return _folded(title, {k: json_ready(v) for k, v in facts.items()})


def files_list(names: Sequence[str]) -> Markup:
    """Links to files beside the page."""
    return tag("ul", [tag("li", tag("a", name, href=name)) for name in names], class_="plain")
