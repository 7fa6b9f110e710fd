"""Demand matrices that are written as n x n numbers, with or without names of nodes.

A file has either one matrix in n rows, or one matrix of n x n numbers in every row. In the latter
case each row is a step of time (as YATES writes them).
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

# Source, sink, rate, and the position in the file.
Entry = tuple[str, str, float, str]

_DELIMITERS = re.compile(r"[,;\t]")

# Number of names that a note shows.
_SHOWN_NAMES = 3


@dataclass(frozen=True)
class _Table:
    """A table of numbers.

    Attributes:
        names: The names of the columns, if the table has any.
        rows: The numbers.
        lines: The line number of each row.
    """

    names: tuple[str, ...]
    rows: tuple[tuple[float, ...], ...]
    lines: tuple[int, ...]


def square_entries(text: str, network: Network, where: str, step: int | None) -> list[Entry] | None:
    """Return the demands of a file of n x n numbers; None if it is no such file.

    Args:
        text: The text of the file.
        network: The network, whose hosts, switches or nodes are the rows in their order.
        where: The text with which messages begin.
        step: Number of the step of time, from 1; None reads the first.

    Raises:
        InputError: The table is not square, or has another size than the network.
    """
    table = _parse_table(text)
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
    """Return the demands of one row of n x n numbers.

    Args:
        table: The table.
        names: The n nodes.
        network: The network.
        where: The text with which messages begin.
        step: Number of the row, from 1; None reads the first.
    """
    number = step or 1
    if not 1 <= number <= len(table.rows):
        raise InputError(f"{where}: it has {len(table.rows)} steps of time; give one of them")
    size = len(names)
    numbers = table.rows[number - 1]
    rows = [numbers[i * size : (i + 1) * size] for i in range(size)]
    hint = "" if step or len(table.rows) == 1 else " (FILE:2 for the next)"
    _note(
        f"{where}: step {number} of {len(table.rows)}{hint}; rows and columns are"
        f" {_described(names, network)}, in bits a second"
    )
    return _entries(names, rows, [table.lines[number - 1]] * size)


def _named_entries(table: _Table, network: Network, where: str) -> list[Entry]:
    """Return the demands of a table with named columns."""
    if len(table.rows) != len(table.rows[0]) or len(table.names) != len(table.rows):
        raise InputError(
            f"{where}: {len(table.rows)} rows and {len(table.names)} named columns; give as many"
        )
    names = [network.node_of_name.get(name, name) for name in table.names]
    return _entries(names, table.rows, table.lines)


def _entries(
    names: Sequence[str], rows: Sequence[Sequence[float]], lines: Sequence[int]
) -> list[Entry]:
    """Return the demands of square rows, without the diagonal and without zeros."""
    entries = []
    for source, row, line in zip(names, rows, lines, strict=True):
        for sink, rate in zip(names, row, strict=True):
            if source != sink and rate:
                entries.append((source, sink, rate, f"line {line}, {source} to {sink}"))
    return entries


def _parse_table(text: str) -> _Table | None:
    """Return the table in a text, or None if a cell inside its borders is not a number.

    The first row and the first column may have names, which must agree.
    """
    names: tuple[str, ...] = ()
    row_names: list[str] = []
    rows: list[tuple[float, ...]] = []
    lines: list[int] = []
    delimiter = _delimiter(text)
    for number, line in enumerate(text.splitlines(), start=1):
        # Comments are accepted before the first row only.
        content = line if rows else line.partition("#")[0]
        cells = _cells(content, delimiter)
        if not cells:
            continue
        numbers = _numbers(cells)
        is_header = numbers is None and not rows and not names
        if is_header:
            names = tuple(cells[1:] if not cells[0] else cells)
            continue
        longer_than_header = bool(names) and len(cells) > len(names)
        if numbers is None or longer_than_header:
            # The first cell is the name of the row.
            row_names.append(cells[0])
            numbers = _numbers(cells[1:])
        if numbers is None:
            return None
        rows.append(numbers)
        lines.append(number)
    if not rows or len(rows[0]) < 2:
        return None
    if row_names and names[1:] == tuple(row_names):
        names = names[1:]  # The corner of the table has a title.
    if row_names and names != tuple(row_names):
        return None
    return _Table(names, tuple(rows), tuple(lines))


def _delimiter(text: str) -> str:
    """Return the character between cells; empty if they are separated by blanks."""
    match = _DELIMITERS.search(text)
    return "" if match is None else match[0]


def _cells(line: str, delimiter: str) -> list[str]:
    """Return the cells of a line, without empty ones at its end."""
    if not delimiter:
        return line.split()
    cells = [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter), [])]
    while cells and not cells[-1]:
        cells.pop()
    return cells


def _numbers(cells: Sequence[str]) -> tuple[float, ...] | None:
    """Return the cells as numbers, or None if one is not a number."""
    try:
        return tuple(float(cell) for cell in cells)
    except ValueError:
        return None


def _is_list_of_demands(table: _Table, network: Network) -> bool:
    """Return whether rows of three numbers are source, sink and rate."""
    if table.names or len(table.rows[0]) != 3:
        return False
    for row in table.rows:
        if any(f"{value:g}" not in network.node_index for value in row[:2]):
            return False
    return True


def _names(network: Network, size: int) -> list[str] | None:
    """Return the hosts, the switches or all nodes, whichever have this number, or None."""
    for nodes in (network.hosts, network.switches, network.nodes):
        if len(nodes) == size > 1:
            return [node.id for node in nodes]
    return None


def _described(names: Sequence[str], network: Network) -> str:
    """Return a description of the nodes for a note."""
    kind = "nodes"
    if len(names) == len(network.hosts):
        kind = "hosts"
    elif len(names) == len(network.switches):
        kind = "switches"
    shown = ", ".join(names[:_SHOWN_NAMES])
    if len(names) > _SHOWN_NAMES:
        shown += ", ..."
    return f"the {len(names)} {kind} in their order ({shown})"


def _note(text: str) -> None:
    warnings.warn(NetworkNote(text), stacklevel=2)
