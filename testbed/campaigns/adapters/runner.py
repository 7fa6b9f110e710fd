"""Runs a campaign's units on Dask workers, keeps each unit as it comes, and writes all rows as one Parquet file.

Whatever order workers finish in, and however often they or this process are killed, the file is the same.
"""

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.campaigns.adapters.dask_workers import dask_client, shared_out
from testbed.campaigns.description import Campaign, Unit, units
from testbed.campaigns.rows import COLUMNS, unit_rows
from testbed.errors import InputError, TestbedError
from testbed.results.run_folder import write_below
from testbed.results.study_store import StudyRun
from topologies import Json, JsonObject, TopologyError

if TYPE_CHECKING:
    from distributed import Security

RESULTS = "campaign.parquet"


def run_campaign(
    campaign: Campaign,
    run: StudyRun,
    *,
    workers: int,
    scheduler: str | None = None,
    security: "Security | None" = None,
    report_progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[JsonObject]:
    """Compute what is missing of the run, then return all rows in the campaign's order.

    Raises InputError where a unit's network, end points or method are wrong (the first found), CapabilityError where
    the scheduler cannot be reached or has no worker.
    """
    todo = units(campaign)
    done = {entry["unit"]: entry["rows"] for entry in run.rows if "rows" in entry}
    missing = [unit for unit in todo if unit.index not in done]
    report_progress(len(done), len(todo))
    if missing:
        with dask_client(workers, scheduler, security) as client:
            shared = client.scatter(campaign, broadcast=True)
            for unit, (problem, rows, notes) in shared_out(
                client, _guarded, missing, _named, shared
            ):
                for note in notes:
                    warnings.warn(note, stacklevel=2)
                if problem is not None:
                    raise InputError(problem)
                run.add({"unit": unit.index, "rows": rows})
                done[unit.index] = rows
                report_progress(len(done), len(todo))
    return [row for unit in todo for row in done[unit.index]]


def write_rows(rows: Sequence[Json], path: Path) -> None:
    """All rows as one Parquet file (columns of ``testbed.campaigns.rows.COLUMNS``), whole or not at all."""
    import pyarrow as pa
    from pyarrow import parquet

    kinds = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema([(name, kinds[kind]) for name, kind in COLUMNS.items()])
    columns = [
        pa.array([row[name] for row in rows], type=schema.field(name).type) for name in COLUMNS
    ]
    content = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), content, compression="zstd")
    write_below(path.parent, path.name, content.getvalue().to_pybytes())


def _named(unit: Unit) -> str:
    return f"unit {unit.index} ({unit.network})"


def _guarded(
    campaign: Campaign, unit: Unit
) -> tuple[str | None, list[JsonObject], list[Warning | str]]:
    """On a worker: the rows, or the words of an error that is the user's (Dask would log a traceback for it); and what
    was warned of, which the campaign's own process shows."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            return None, unit_rows(campaign, unit), [one.message for one in caught]
        except (TestbedError, TopologyError, ValueError) as error:
            return f"{unit.network}: {error}", [], []
