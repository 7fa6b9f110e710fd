"""Reads failure traces from files, plain or gzip, and tells their format by the first line.

The formats themselves are parsed in testbed/faults/failure_traces.py.
"""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path

from testbed.errors import InputError
from testbed.faults.failure_traces import (
    FailureTrace,
    parse_fta_events,
    parse_lanl_table,
    parse_pnnl_table,
)
from testbed.model.json_values import located
from testbed.results.run_folder import bounded, unpacked


def read_trace(
    path: Path, *, system: str | None = None, rule: str | None = None, skip_bad_rows: bool = False
) -> FailureTrace:
    """The trace in a file: an LANL table (``rule`` as there), an FTA event table or PNNL's table.

    ``system``: which machine (not needed for PNNL's). Raises InputError for a file that cannot be read, one of another
    format, and as the parsers.
    """
    lines = read_lines(path)
    heading = lines[0].replace('"', "") if lines else ""
    with located(str(path)):
        if heading.startswith(("Date,", "Date;", "Date\t")):
            return parse_pnnl_table(lines, skip_bad_rows=skip_bad_rows)
        parse: Callable[..., FailureTrace]
        if heading.startswith(("System,", "System;", "System\t")):
            parse = parse_lanl_table if rule is None else partial(parse_lanl_table, rule=rule)
        elif "event_id" in heading:
            parse = parse_fta_events
        else:
            raise InputError(
                "not an LANL, FTA or PNNL table: the first line names none of their columns"
            )
        if system is None:
            raise InputError("give the number of the system whose failures are meant")
        return parse(lines, system, skip_bad_rows=skip_bad_rows)


def read_lines(path: Path) -> list[str]:
    """The file's lines with their ends, of UTF-8 or UTF-16; other bytes become the replacement character."""
    try:
        with path.open("rb") as file:
            content = unpacked(file, path) if path.suffix == ".gz" else bounded(file, path)
        return content.decode(json.detect_encoding(content), errors="replace").splitlines(
            keepends=True
        )
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error}); give a trace file, plain or .gz"
        ) from None
