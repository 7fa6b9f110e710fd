"""Reads failure traces from plain or gzip files, whose format is recognized by the first line.

The formats are parsed in testbed/faults/failure_traces.py.
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
from testbed.model.json_values import prefix_errors
from testbed.results.run_folder import bounded, unpacked


def read_trace(
    path: Path, *, system: str | None = None, rule: str | None = None, skip_bad_rows: bool = False
) -> FailureTrace:
    """Return the trace in an LANL table, an FTA event table or PNNL's table.

    Args:
        path: The file.
        system: The system whose failures are returned. PNNL's table needs none.
        rule: The rule that selects rows of the LANL table. None: the default of its parser.
        skip_bad_rows: Whether invalid rows are skipped.

    Raises:
        InputError: The file cannot be read, has another format, or contains an error.
    """
    lines = read_lines(path)
    heading = ""
    if lines:
        heading = lines[0].replace('"', "")
    with prefix_errors(str(path)):
        if heading.startswith(("Date,", "Date;", "Date\t")):
            return parse_pnnl_table(lines, skip_bad_rows=skip_bad_rows)
        parse: Callable[..., FailureTrace]
        if heading.startswith(("System,", "System;", "System\t")):
            parse = parse_lanl_table
            if rule is not None:
                parse = partial(parse_lanl_table, rule=rule)
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
    """Return the lines of a file in UTF-8 or UTF-16, with their ends.

    Other bytes become the replacement character.
    """
    try:
        with path.open("rb") as file:
            content = unpacked(file, path) if path.suffix == ".gz" else bounded(file, path)
        text = content.decode(json.detect_encoding(content), errors="replace")
        return text.splitlines(keepends=True)
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error}); give a trace file, plain or .gz"
        ) from None
