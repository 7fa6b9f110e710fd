"""The report of a run as one self-contained HTML page, and the parts that all pages share.

A page loads no file, font or address from outside. Only moving pictures lie beside it.
"""

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
    """Return the page of a run as text.

    The same records always give the same page. The cost is linear in links and time bins.
    """
    manifest = run.manifest
    title = f"{manifest.name} {manifest.run}".strip() or "run"
    head = page_head(f"{state_of(run.verdict).replace('-', ' ').capitalize()}: {title}")
    alone = len(run.sessions) == 1
    sections = [stream_section(part, alone=alone) for part in run.sessions]
    main = tag("main", _overview(run), sections, _closing(run))
    footer = page_footer("Drawn from the records beside this page; ")
    return whole_page(head, _header(run), main, footer)


def whole_page(head: Markup, *body: object, script: str | None = None) -> str:
    """Return a complete HTML document.

    Args:
        head: The ``head`` element.
        *body: Content of the ``body`` element.
        script: The script of the page; by default, the script of every page.
    """
    if script is None:
        script = page_script()
    script_tag = tag("script", Markup(script))
    html = tag("html", head, tag("body", *body, script_tag), lang="en")
    return f"<!doctype html>\n{html}\n"


def page_footer(source: str, command: str = "testbed report") -> Markup:
    """Return a footer that says from what the page was created, and how to create it again.

    Args:
        source: Beginning of the sentence, which says from what the page was created.
        command: Command that creates the page, empty if the sentence has no command.
    """
    code = tag("code", command) if command else None
    return tag("footer", tag("p", source, code, " generates it again."))


def page_header(
    manifest: Manifest, title: str, state: RunState, counted: Sequence[str], *parts: object
) -> Markup:
    """Return the header of a run's page: facts, title, verdict, further parts and the command.

    Args:
        manifest: The manifest of the run, with its time, seed, duration and command.
        title: The title.
        state: The verdict.
        counted: Counts that the line of facts contains, for example "12 points".
        *parts: Elements below the title.
    """
    facts = [when(manifest.started), f"seed {manifest.seed}", *counted]
    if manifest.seconds is not None:
        facts.append(f"took {seconds_in_words(manifest.seconds)}")
    # A fact is not broken into two lines.
    unbroken = [fact.replace(" ", "\u00a0") for fact in facts if fact]
    return tag(
        "header",
        tag("p", " · ".join(unbroken), class_="kicker"),
        tag("div", tag("h1", title), badge(state), class_="headline"),
        *parts,
        _command(manifest.command) if manifest.command else None,
    )


def _command(command: str) -> Markup:
    """Return the command line, broken between words alone, with a button that copies it."""
    parts: list[object] = []
    for word in command.split(" "):
        parts += [tag("span", word), " "]
    code = tag("code", *parts[:-1], class_="command")
    copy = tag("button", "Copy", type="button", class_="copy", hidden=True)
    return tag("p", "Run again: ", code, " ", copy, class_="soft")


def policy(*scripts: str) -> str:
    """Return a Content-Security-Policy for a page with these scripts.

    It allows only these scripts, by their hashes, and pictures inside the page. It forbids requests
    to other addresses.
    """
    sources = []
    for script in scripts:
        digest = hashlib.sha256(script.encode()).digest()
        sources.append(f"'sha256-{base64.b64encode(digest).decode()}'")
    return (
        f"default-src 'none'; script-src {' '.join(sources)}; style-src 'unsafe-inline'; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def page_head(title: str, *, style: str = "", forbids: bool = True, plays: bool = False) -> Markup:
    """Return the ``head`` element of a page.

    Args:
        title: Title of the page.
        style: Style rules in addition to those of every page.
        forbids: Whether the page contains a Content-Security-Policy. It is not needed if the server
            sends the policy in a header.
        plays: Whether the policy allows videos from the folder of the page.
    """
    security = None
    if forbids:
        content = policy(page_script())
        if plays:
            content += "; media-src 'self' file:"
        security = tag("meta", http_equiv="Content-Security-Policy", content=content)
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        security,
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(page_style() + style)),
    )


def picture(drawing: str, caption: str, **attributes: str) -> Markup:
    """Return an SVG document as a figure inside the page.

    Args:
        drawing: The SVG document.
        caption: Caption, which is also the alternative text.
        **attributes: Attributes of the ``figure`` element.
    """
    encoded = base64.b64encode(following_dark_mode(drawing).encode()).decode()
    source = f"data:image/svg+xml;base64,{encoded}"
    style = "max-width:100%;height:auto;border-radius:4px"
    image = tag("img", src=source, alt=caption, style=style)
    return tag("figure", image, tag("figcaption", caption), **attributes)


def clip(name: str) -> Markup:
    """Return a figure with a moving picture, whose file lies beside the page."""
    video = tag("video", src=name, controls=True, loop=True, muted=True, style="max-width:100%")
    return tag("figure", video, tag("figcaption", tag("a", name, href=name)))


def differences(deviations: Sequence[str]) -> Markup | None:
    """Return a list of the deviations of a study from the document, or None if there are none."""
    if not deviations:
        return None
    points = tag("ul", [tag("li", deviation) for deviation in deviations], class_="plain")
    return join([tag("p", "Where this differs from the document:"), points])


def page_style() -> str:
    """Return the style sheet of every page, with light and dark colours."""
    light = custom_properties(LIGHT)
    dark = custom_properties(DARK)
    colours = f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}"
    return colours + _resource("page.css")


def page_script() -> str:
    """Return the script of every page.

    It highlights the fault under the pointer in all figures and tables, and unfolds everything for
    printing.
    """
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
    columns = [
        ("Network", ""),
        ("Verdict", ""),
        ("Route", ""),
        ("Faults", "n"),
        ("Largest deviation of a loss", "n"),
        ("ROR predicted", "n"),
        ("ROR measured", "n"),
    ]
    codes = set()
    for part in run.sessions:
        code = describe_stream_code(part.session.parameters)
        if code and ror_is_predicted(part):
            codes.add(code)
    note = tag("p", f"ROR: {'; '.join(sorted(codes))}", class_="soft") if codes else None
    rows = [_overview_row(part) for part in run.sessions]
    return join([table(columns, rows, "All streams"), note])


def _overview_row(part: SessionRun) -> tuple[object, ...]:
    session = part.session
    verdict = part.summary.verdict if part.summary else None
    deviation = worst_deviation(part.faults)
    ror_predicted, ror_measured = ror_words(part)
    return (
        tag("a", session.title, href=f"#stream-{session.session}"),
        badge(state_of(verdict), small=True),
        f"{session.source} to {session.sink}, {session.method.replace('_', ' ')}",
        len(part.faults),
        NOTHING if deviation is None else f"{plain(deviation * 100)} points",
        ror_predicted,
        ror_measured,
    )


def _closing(run: LoadedRun) -> Markup:
    manifest = run.manifest
    # The verdict of a run is the sum of the verdicts of its streams. It is listed only if no stream
    # has one, so that no check appears twice.
    checks = None
    if run.verdict is not None and all(part.summary is None for part in run.sessions):
        checks = checks_block(run.verdict)
    capabilities = {name: _capability(entry) for name, entry in manifest.capabilities.items()}
    records = ["manifest.json", "measurements.jsonl"]
    if run.verdict is not None:
        records.append("verdict.json")
    return tag(
        "section",
        tag("h2", "The run"),
        checks,
        machine_details(manifest),
        _folded("Machine capabilities", capabilities),
        [_parameters(part) for part in run.sessions],
        tag("h3", "Records"),
        files_list(records),
        class_="closing",
    )


def machine_details(manifest: Manifest) -> Markup:
    """Return the machine and the versions of a run, folded."""
    machine = dict(manifest.machine)
    memory_bytes = machine.pop("memory_bytes", None)
    if isinstance(memory_bytes, (int, float)):
        machine["memory"] = f"{plain(memory_bytes / 2**30, 1)} GiB"
    both = tag("div", fact_list(machine), fact_list(manifest.versions), class_="two")
    return tag("details", tag("summary", "Machine and versions"), both)


def fact_list(facts: Json) -> Markup:
    """Return names and values as a definition list."""
    if not facts:
        return tag("p", "Not recorded.", class_="soft")
    entries = []
    for name, value in facts.items():
        heading, _ = column(name, [])
        entries += [tag("dt", explained(heading)), tag("dd", cell(value))]
    return tag("dl", entries, class_="facts")


def _capability(entry: object) -> str:
    """Return whether the machine has a capability, and the detail recorded with it."""
    available = entry
    detail = None
    if isinstance(entry, Mapping):
        available = entry.get("available")
        detail = entry.get("detail")
    text = "✓ yes" if available else "✗ no"
    return f"{text}: {detail}" if detail else text


def _folded(title: str, facts: Json) -> Markup | None:
    return tag("details", tag("summary", title), fact_list(facts)) if facts else None


def _parameters(part: SessionRun) -> Markup | None:
    figures = part.summary.figures if part.summary else {}
    facts = {name: json_ready(value) for name, value in part.session.parameters.items()}
    for name, value in figures.items():
        if name != PER_PATH:  # it has a table
            facts[name] = json_ready(value)
    return _folded(f"Parameters and counts, {part.session.title}", facts)


def files_list(names: Sequence[str]) -> Markup:
    """Return a list of links to files beside the page."""
    return tag("ul", [tag("li", tag("a", name, href=name)) for name in names], class_="plain")
