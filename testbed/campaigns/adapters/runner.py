"""Runs the units of a campaign on Dask workers, and writes all rows to a Parquet file.

Each unit is stored as soon as it is computed. The file does not depend on the order in which
workers finish, nor on how often they or this process are killed.
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

# Name of the file of all rows in the folder of a run.
RESULTS = "campaign.parquet"


def run_campaign(
    campaign: Campaign,
    run: StudyRun,
    *,
    workers: int,
    scheduler: str | None = None,
    security: "Security | None" = None,
    report_progress: Callable[[int, int], None] | None = None,
) -> list[JsonObject]:
    """Compute the missing units of a run, and return all rows in the order of the campaign.

    Args:
        campaign: The campaign.
        run: The run, in which units may be stored already.
        workers: Number of processes on this machine, if there is no scheduler.
        scheduler: Address of a Dask scheduler, or None.
        security: Certificates for the scheduler. None: plain TCP.
        report_progress: Called with the number of computed units and the number of all units.

    Raises:
        InputError: The network, the end points or a method of a unit do not exist.
        CapabilityError: The scheduler cannot be reached or has no worker.
    """
    all_units = units(campaign)
    rows_by_unit = {entry["unit"]: entry["rows"] for entry in run.rows if "rows" in entry}
    missing = [unit for unit in all_units if unit.index not in rows_by_unit]
    if report_progress is not None:
        report_progress(len(rows_by_unit), len(all_units))
    if missing:
        with dask_client(workers, scheduler, security) as client:
            # The campaign is sent once to each worker, not once for each unit.
            remote_campaign = client.scatter(campaign, broadcast=True)
            results = shared_out(client, _compute_on_worker, missing, _unit_name, remote_campaign)
            for unit, (problem, rows, unit_warnings) in results:
                for warning in unit_warnings:
                    warnings.warn(warning, stacklevel=2)
                if problem is not None:
                    raise InputError(problem)
                run.add({"unit": unit.index, "rows": rows})
                rows_by_unit[unit.index] = rows
                if report_progress is not None:
                    report_progress(len(rows_by_unit), len(all_units))
    all_rows: list[JsonObject] = []
    for unit in all_units:
        all_rows += rows_by_unit[unit.index]
    return all_rows


def write_rows(rows: Sequence[Json], path: Path) -> None:
    """Write rows to a Parquet file, completely or not at all.

    The columns are those of ``testbed.campaigns.rows.COLUMNS``.
    """
    import pyarrow as pa
    from pyarrow import parquet

    types = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
    schema = pa.schema([(name, types[kind]) for name, kind in COLUMNS.items()])
    columns = []
    for name in COLUMNS:
        values = [row[name] for row in rows]
        columns.append(pa.array(values, type=schema.field(name).type))
    content = pa.BufferOutputStream()
    parquet.write_table(pa.Table.from_arrays(columns, schema=schema), content, compression="zstd")
    write_below(path.parent, path.name, content.getvalue().to_pybytes())


def _unit_name(unit: Unit) -> str:
    return f"unit {unit.index} ({unit.network})"


def _compute_on_worker(
    campaign: Campaign, unit: Unit
) -> tuple[str | None, list[JsonObject], list[Warning | str]]:
    """Compute a unit on a worker.

    Returns:
        The message of an error that the user can correct, or None; the rows; and the warnings. The
        error is not raised, because Dask would log a traceback. The process of the campaign shows
        the warnings.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rows = unit_rows(campaign, unit)
        except (TestbedError, TopologyError, ValueError) as error:
            return f"{unit.network}: {error}", [], []
        return None, rows, [warning.message for warning in caught]
