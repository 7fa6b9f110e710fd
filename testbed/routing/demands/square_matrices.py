"""Demand matrices that are written as n x n numbers, with or without names of nodes.

A file holds one matrix in n rows, or one matrix of n x n numbers in every row, a row for each step
of time (as YATES writes them).
"""

import csv
import math
import re
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from testbed.errors import InputError
from topologies import Network
from topologies.files.foreign import NetworkNote

Entry = tuple[str, str, float, str]
"""Source, sink, rate and where it stands."""
_SIGNS = re.compile(r"[,;\t]")


@dataclass(frozen=True)
class _Table:
    """Rows of numbers.

    Attributes:
        names: The names of the columns, if the table has any.
        rows: The numbers.
        lines: The number of the line of each row.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    lines: tuple[int, ...]


def square_entries(text: str, network: Network, where: str, step: int | None) -> list[Entry] | None:
    """Return the demands of a file of n x n numbers; None if it is no such file.

    Args:
        text: The text of the file.
        network: The network, whose hosts, switches or nodes are the rows in their order.
        where: What messages begin with.
        step: Which step of time is read, from 1; None reads the first.

    Raises:
        InputError: The table is not square, or has another size than the network.
    """
    table = _table(text)
    if table is None or _is_list_of_demands(table, network):
        return None
    columns = len(table.rows[0])
    if any(len(row) != columns for row in table.rows):
        raise InputError(f"{where}: not all rows have {columns} numbers; give n rows of n numbers")
    if table.names:
        return _named_entries(table, network, where)
    names = _names(network, columns) if len(table.rows) == columns else None
    if names is not None:
        _note(f"{where}: rows and columns are {_described(names, network)}, in bits a second")
        return _entries(names, table.rows, table.lines)
    size = math.isqrt(columns)
    names = _names(network, size) if size * size == columns else None
    if names is None:
        raise InputError(
            f"{where}: {len(table.rows)} rows of {columns} numbers, but {network.name!r} has"
            f" {len(network.hosts)} hosts and {len(network.switches)} switches; give n rows of n"
            " numbers, or n x n numbers in a row"
        )
    return _step_entries(table, names, network, where, step)


def _step_entries(
    table: _Table, names: Sequence[str], network: Network, where: str, step: int | None
) -> list[Entry]:
    """Return the demands of one row of n x n numbers."""
    number = step or 1
    if not 1 <= number <= len(table.rows):
        raise InputError(f"{where}: it has {len(table.rows)} steps of time; give one of them")
    size = len(names)
    row = table.rows[number - 1]
    rows = [row[i * size : (i + 1) * size] for i in range(size)]
    more = "" if step or len(table.rows) == 1 else " (FILE:2 for the next)"
    _note(
        f"{where}: step {number} of {len(table.rows)}{more}; rows and columns are"
        f" {_described(names, network)}, in bits a second"
    )
    return _entries(names, rows, [table.lines[number - 1]] * size)


def _named_entries(table: _Table, network: Network, where: str) -> list[Entry]:
    if len(table.rows) != len(table.rows[0]) or len(table.names) != len(table.rows):
        raise InputError(
            f"{where}: {len(table.rows)} rows and {len(table.names)} named columns; give as many"
        )
    names = [network.node_of_name.get(name, name) for name in table.names]
    return _entries(names, table.rows, table.lines)


def _entries(
    names: Sequence[str], rows: Sequence[Sequence[float]], lines: Sequence[int]
) -> list[Entry]:
    entries = []
    for source, row, line in zip(names, rows, lines, strict=True):
        for sink, rate in zip(names, row, strict=True):
            if source != sink and rate:
                entries.append((source, sink, rate, f"line {line}, {source} to {sink}"))
    return entries


def _table(text: str) -> _Table | None:
    """Return the rows of a text in which all cells are numbers, but for names at the borders."""
    names: tuple[str, ...] = ()
    row_names: list[str] = []
    rows: list[tuple[float, ...]] = []
    lines: list[int] = []
    sign = _sign(text)
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0] if not rows else line
        cells = _cells(line, sign)
        if not cells:
            continue
        numbers = _numbers(cells)
        if numbers is None and not rows and not names:
            names = tuple(cells[1:] if not cells[0] else cells)
            continue
        if numbers is None or (names and len(numbers) == len(cells) and len(cells) > len(names)):
            row_names.append(cells[0])
            numbers = _numbers(cells[1:])
        if numbers is None:
            return None
        rows.append(numbers)
        lines.append(number)
    if not rows or len(rows[0]) < 2:
        return None
    if row_names and names[1:] == tuple(row_names):
        names = names[1:]  # the corner has a title
    if row_names and names != tuple(row_names):
        return None
    return _Table(names, tuple(rows), tuple(lines))


def _sign(text: str) -> str:
    match = _SIGNS.search(text)
    return "" if match is None else match[0]


def _cells(line: str, sign: str) -> list[str]:
    if not sign:
        return line.split()
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=sign), [])]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _numbers(cells: Sequence[str]) -> tuple[float, ...] | None:
    try:
        return tuple(float(cell) for cell in cells)
    except ValueError:
        return None


def _is_list_of_demands(table: _Table, network: Network) -> bool:
    """Return whether rows of three numbers are source, sink and rate."""
    if table.names or len(table.rows[0]) != 3:
        return False
    ends = [f"{value:g}" for row in table.rows for value in row[:2]]
    return all(end in network.node_index for end in ends)


def _names(network: Network, size: int) -> list[str] | None:
    """Return the hosts, the switches or all nodes, whatever has this number."""
    for nodes in (network.hosts, network.switches, network.nodes):
        if len(nodes) == size > 1:
            return [node.id for node in nodes]
    return None


def _described(names: Sequence[str], network: Network) -> str:
    kind = "nodes"
    if len(names) == len(network.hosts):
        kind = "hosts"
    elif len(names) == len(network.switches):
        kind = "switches"
    shown = ", ".join(names[:3]) + (", ..." if len(names) > 3 else "")
    return f"the {len(names)} {kind} in their order ({shown})"


def _note(text: str) -> None:
    warnings.warn(NetworkNote(text), stacklevel=2)
