"""The page of a study: verdict, figures, the table of its points; one self-contained file like the page of a stream."""

import re
from collections.abc import Mapping, Sequence

from testbed.model.run_records import Manifest, group_sessions, record_from_json
from testbed.model.verdict import Verdict
from testbed.report import page
from testbed.report.answers import table_section
from testbed.report.column_units import cell, column, is_series
from testbed.report.comparison import compare_methods
from testbed.report.drawing.stream_figures import route_figure
from testbed.report.drawing.svg_figures import caption_in, inlined
from testbed.report.markup import Markup, join, tag
from testbed.report.sections import checks_block, scrolling, stream_figure, table
from testbed.report.wording import counted, state_of, verdict_reason
from topologies.text.json_types import Json

FEW_ROWS = 4
"""So few points stand side by side."""
MAX_ROWS = 500
"""Rows beyond this number are left to the file next to the page."""


def build_study_page(
    manifest: Manifest, rows: Sequence[Json], verdict: Verdict | None, figures: Mapping[str, str]
) -> str:
    """The whole page as text. ``figures``: name -> SVG document. Deterministic: the same records give the same page."""
    state = state_of(verdict)
    clips = [name for row in rows if isinstance(row.get("clips"), list) for name in row["clips"]]
    title = f"{state.replace('-', ' ').capitalize()}: {manifest.name} {manifest.run}".strip()
    head = page.page_head(title, plays=bool(clips))
    unfinished = None if verdict is not None else "the study did not end"
    header = page.page_header(
        manifest,
        manifest.study.get("of") or study_title(manifest),
        state,
        [counted(len(rows), "point")],
        tag("p", study_title(manifest), class_="soft") if "of" in manifest.study else None,
        tag("p", manifest.study["answers"], class_="lead")
        if manifest.study.get("answers")
        else None,
        tag("p", verdict_reason(verdict, unfinished), class_="lead"),
        _what_it_is(manifest.study),
    )
    parts = [
        drawn_network(manifest.study.get("drawn", ())),
        *(
            page.picture(drawing, caption_in(drawing, name), class_="across")
            for name, drawing in figures.items()
        ),
        *map(page.clip, clips),
        _methods(manifest.name, rows),
    ]
    closing = tag(
        "section",
        tag("h2", "Checks"),
        checks_block(verdict) if verdict is not None else None,
        tag("h2", "Points"),
        _point_table(rows),
        tag("h2", "Data"),
        page.files_list(
            ("points.jsonl", "manifest.json", *(["verdict.json"] if verdict is not None else []))
        ),
        page.machine_details(manifest),
        class_="closing",
    )
    footer = page.page_footer("Generated from the points next to this page; ")
    return page.whole_page(head, header, tag("main", parts, closing), footer)


def drawn_network(records: Sequence[Json]) -> Markup | None:
    """The network with what was planned on it, from the records of a stream."""
    runs = group_sessions([record_from_json(one, "drawn") for one in records])
    drawn = inlined("drawn", lambda: {"route": route_figure(runs[0])}) if runs else {}
    return (
        stream_figure("route" if runs[0].session.source else "network", *drawn["route"])
        if drawn
        else None
    )


def _methods(name: str, rows: Sequence[Json]) -> Markup | None:
    """The methods of a campaign beside each other."""
    if not name.startswith("campaign-"):
        return None
    common = any("mean_ror_of_common_rows" in row for row in rows)
    mean = "mean_ror_of_common_rows" if common else "mean_ror"
    compared = compare_methods(name, rows, (mean,), ("tolerance", "m", "der", "large_blocks"))
    if compared is None or not compared.shown_names:
        return None
    return table_section(compared.as_table())


def study_title(manifest: Manifest) -> str:
    """Its title in words, or its name."""
    name = manifest.name.replace("_", " ")
    campaign = re.fullmatch(r"campaign-(.+)-[0-9a-f]{12}", name)
    if campaign is not None:
        return f"Campaign: {campaign[1]}"
    return str(manifest.study.get("title") or name or "Study")


def _what_it_is(study: Json) -> Markup | None:
    """What was run, and where that differs from the document."""
    if not study:
        return None
    measured = page.fact_list({"Measured": study["does"]}) if study.get("does") else None
    code = (
        tag("p", f"Every ROR here is that of {study['ror_code']}.", class_="soft")
        if study.get("ror_code")
        else None
    )
    return join([measured, code, page.differences(study.get("deviations", ()))])


def _point_table(rows: Sequence[Json]) -> Markup:
    if not rows:
        return tag("p", "No point was measured.", class_="soft")
    shown = rows[:MAX_ROWS]
    parts: list[Markup] = []
    keys = dict.fromkeys(key for row in shown for key in row if key != "verdict")  # it stands above
    every = [name for name in keys if any(row.get(name) not in (None, [], {}) for row in shown)]
    names = [name for name in every if not any(is_series(row.get(name)) for row in shown)]
    columns = {name: column(name, [row.get(name) for row in shown]) for name in names}
    same = [
        name
        for name in names
        if len(shown) > FEW_ROWS and all(row.get(name, ...) == shown[0].get(name) for row in shown)
    ]
    if same and len(same) < len(names):
        facts = {
            columns.pop(name)[0]: cell(shown[0][name], by)
            for name, (_, by) in [(n, columns[n]) for n in same]
        }
        parts.append(
            join([tag("p", "Common to all points:", class_="soft"), page.fact_list(facts)])
        )
    parts += [
        _side_by_side(shown, columns) if len(shown) <= FEW_ROWS else _row_by_row(shown, columns)
    ]
    if len(names) < len(every):
        left = ", ".join(column(name, [])[0] for name in every if name not in names)
        parts.append(tag("p", f"Series, in points.jsonl: {left}.", class_="soft"))
    if len(rows) > MAX_ROWS:
        words = f"{len(rows) - MAX_ROWS} more points are in points.jsonl beside this page."
        parts.append(tag("p", words, class_="soft"))
    return join(parts)


def _row_by_row(rows: Sequence[Json], columns: Mapping[str, tuple[str, float]]) -> Markup:
    """A row a point."""
    numeric = {
        name: all(isinstance(row.get(name), (int, float, type(None))) for row in rows)
        for name in columns
    }
    heads = [(words, "n" if numeric[name] else "") for name, (words, _) in columns.items()]
    return table(
        heads,
        ([cell(row.get(name), by) for name, (_, by) in columns.items()] for row in rows),
        "Points",
    )


def _side_by_side(rows: Sequence[Json], columns: Mapping[str, tuple[str, float]]) -> Markup:
    """A column a point, where there are few: nothing is cut off at the right."""
    body = [
        tag(
            "tr",
            tag("th", words, scope="row"),
            [tag("td", cell(row.get(n), by), class_="n") for row in rows],
        )
        for n, (words, by) in columns.items()
    ]
    return scrolling(tag("table", tag("tbody", body), class_="beside"), "Points")
