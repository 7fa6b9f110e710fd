"""``testbed.data_frame``: tables with plain columns, of every value that has rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.api.comparing import RunComparison
from testbed.api.plain_tables import plain_frame
from testbed.api.ratings import DemandsResult, RorResult
from testbed.api.runs import RunResult
from testbed.api.stored import is_run, load, runs
from testbed.errors import UsageError
from testbed.model.routes import SplitRoute
from testbed.model.run_records import network_document
from testbed.model.schedule import Schedule
from testbed.model.stored_runs import StoredRun
from testbed.model.traffic import Traffic
from testbed.model.verdict import Verdict
from topologies import CatalogueEntry, Json, JsonObject, Network, link_fields

if TYPE_CHECKING:
    import pandas

# The values that ``data_frame`` accepts, for messages.
_ACCEPTED_VALUES = (
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
    if is_run(path):
        return list(load(path).rows)
    listed = runs(path) if Path(path).is_dir() else ()
    if not listed:
        raise UsageError(f"data_frame: {str(path)!r} is no stored run; give {_ACCEPTED_VALUES}")
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
            rows: list[Json] = []
            for number, entry in enumerate(entries):
                rows += [{"result": number, **row} for row in entry.rows]
            return rows
    raise UsageError(f"data_frame: a {type(result).__name__} has no table; give {_ACCEPTED_VALUES}")


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
