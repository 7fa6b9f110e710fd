"""``testbed.data_frame``: tables with plain columns, of every value that has rows."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from fractions import Fraction
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.api.ratings import DemandsResult, RorResult
from testbed.api.runs import RunComparison, RunResult
from testbed.errors import CapabilityError, UsageError
from testbed.extras import pip_command
from testbed.model.routes import SplitRoute
from testbed.model.run_records import network_document
from testbed.model.schedule import Schedule
from testbed.model.stored_runs import StoredRun
from testbed.model.traffic import Traffic
from testbed.model.verdict import Verdict
from topologies import CatalogueEntry, Json, JsonObject, Network, link_fields

if TYPE_CHECKING:
    import pandas

_TAKEN = (
    "a run, a stored run or its folder, several of them, a comparison, a route, ROR or demands, "
    "a schedule, a traffic, a network, networks, a verdict or counters"
)


def data_frame(result: object) -> pandas.DataFrame:
    """Return the table of a result as a DataFrame of pandas, with plain columns.

    Numbers are numbers, also if some are missing. Pairs such as an interval are two columns,
    ``interval_low`` and ``interval_high``; other structures are one column for each part, named
    ``diagnosis_right``; lists are text.

    Args:
        result: A run (a row for each fault, operation or round), a stored run or its folder, a
            folder of stored runs or what ``testbed.runs`` returns (a row for each run), a
            comparison, a route (a row for each loaded link), an ROR, demands (a row for each
            method), a schedule or a traffic (a row for each transfer), a network (a row for each
            link), ``testbed.networks()``, a verdict (a row for each check), or a session's
            counters (a row for each link).

    Raises:
        CapabilityError: pandas is not installed.
        UsageError: The value has no table.

    >>> import testbed
    >>> data_frame(testbed.route("ring:4", "s0", "s2")).load_float.tolist()  # doctest: +SKIP
    [0.5, 0.5, 0.5, 0.5]
    """
    return plain_frame(rows_of(result))


def rows_of(result: object) -> list[Json]:
    """Return the rows of the table, without pandas.

    >>> import testbed
    >>> sorted(row["frame"] for row in rows_of(testbed.schedule("crossbar:2")))
    [0, 0, 1, 1]
    """
    if isinstance(result, (str, PathLike)):
        return _rows_of_path(result)
    if isinstance(result, (RunResult, RorResult, DemandsResult)):
        return list(result.rows)
    if isinstance(result, RunComparison):
        return result.rows
    if isinstance(result, SplitRoute):
        return [_load_row(result, index) for index in result.loaded]
    if isinstance(result, Schedule):
        return _rows_of_schedule(result)
    if isinstance(result, Traffic):
        return [_transfer_row(result, number) for number in range(len(result))]
    if isinstance(result, Network):
        return list(network_document(result)["links"])
    if isinstance(result, Verdict):
        return list(result.to_json()["checks"])
    return _rows_of_collection(result)


def _rows_of_path(path: str | PathLike[str]) -> list[Json]:
    """Return the rows of a stored run, or a row for each run in a folder of runs."""
    from testbed.api.stored import is_run, load, runs

    if is_run(path):
        return list(load(path).rows)
    listed = runs(path) if Path(path).is_dir() else ()
    if not listed:
        raise UsageError(f"data_frame: {str(path)!r} is no stored run; give {_TAKEN}")
    return [_run_row(run) for run in listed]


def _rows_of_collection(result: object) -> list[Json]:
    """Return the rows of counters, of the catalogue, or of a list of results."""
    if isinstance(result, Mapping):
        if all(isinstance(key, tuple) and len(key) == 3 for key in result):
            return [{**link_fields(link), **vars(count)} for link, count in result.items()]
        if result and all(isinstance(entry, CatalogueEntry) for entry in result.values()):
            return [_family_row(entry) for entry in result.values()]
    elif isinstance(result, Iterable):
        entries = list(result)
        if entries and all(isinstance(entry, StoredRun) for entry in entries):
            return [_run_row(entry) for entry in entries]
        if entries and all(isinstance(entry, (RorResult, RunResult)) for entry in entries):
            return [
                {"result": number, **row}
                for number, entry in enumerate(entries)
                for row in entry.rows
            ]
    raise UsageError(f"data_frame: a {type(result).__name__} has no table; give {_TAKEN}")


def plain_frame(rows: Iterable[Json]) -> pandas.DataFrame:
    """Return rows as a DataFrame with plain columns. CapabilityError if there is no pandas."""
    try:
        import pandas
    except ImportError:
        raise CapabilityError(f"pandas is not installed; {pip_command('notebooks')}") from None
    frame = pandas.DataFrame([plain_row(row) for row in rows])
    for name in frame.columns:
        if frame[name].dtype == object:
            values = frame[name].dropna()
            if all(isinstance(value, bool) for value in values) and len(values):
                frame[name] = frame[name].astype("boolean")
            elif not any(isinstance(value, (str, bool)) for value in values):
                frame[name] = pandas.to_numeric(frame[name])
    return frame


def plain_row(row: Json) -> JsonObject:
    """Return a row whose values are numbers, text, booleans or None.

    >>> plain_row({"interval": [0.1, 0.2], "diagnosis": {"right": True, "cables": ["a-b"]}})
    {'interval_low': 0.1, 'interval_high': 0.2, 'diagnosis_right': True, 'diagnosis_cables': 'a-b'}
    """
    plain: JsonObject = {}
    for name, value in row.items():
        plain.update(_plain_columns(str(name), value))
    return plain


def _plain_columns(name: str, value: Any) -> JsonObject:
    value = value.tolist() if hasattr(value, "tolist") else value
    if isinstance(value, Mapping):
        columns: JsonObject = {}
        for key, inner in value.items():
            columns.update(_plain_columns(f"{name}_{key}", inner))
        return columns
    if isinstance(value, Fraction):
        return {name: str(value)}
    if isinstance(value, (list, tuple)):
        if len(value) == 2 and all(_is_number(each) for each in value):
            ends = ("x", "y") if name == "position" else ("low", "high")
            return {f"{name}_{end}": each for end, each in zip(ends, value, strict=True)}
        if all(isinstance(each, str) for each in value):
            return {name: ", ".join(value)}
        return {name: json.dumps(value, default=str)}
    is_plain = value is None or isinstance(value, (str, int, float))
    return {name: value if is_plain else str(value)}


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _load_row(route: SplitRoute, index: int) -> Json:
    link = route.network.links[index]
    load = route.loads[index]
    layer = route.link_layers[index] if route.link_layers else 0
    return {**link_fields(link.id), "load": load, "load_float": float(load), "layer": layer}


def _rows_of_schedule(schedule: Schedule) -> list[Json]:
    rows: list[Json] = []
    for number, frame in enumerate(schedule.frame_of.tolist()):
        if schedule.traffic is None:
            rows.append({"transfer": number, "frame": frame})
        else:
            rows.append({**_transfer_row(schedule.traffic, number), "frame": frame})
    return rows


def _transfer_row(traffic: Traffic, number: int) -> Json:
    row: JsonObject = {"transfer": number}
    if len(traffic.ends):
        row["source"], row["destination"] = traffic.ends[number]
    return row | {"links": len(traffic.transfer(number))}


def _run_row(run: StoredRun) -> Json:
    return {
        "path": str(run.directory),
        "name": run.name,
        "command": run.manifest.command,
        "verdict": run.state,
        "started": run.manifest.started,
        "seconds": run.manifest.seconds,
        "seed": run.manifest.seed,
    }


def _family_row(entry: CatalogueEntry) -> Json:
    parameters = ", ".join(parameter.name for parameter in entry.parameters)
    row = {"name": entry.name, "pattern": entry.pattern, "description": entry.description}
    return {**row, "parameters": parameters}
