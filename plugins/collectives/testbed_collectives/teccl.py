"""Reads the schedules of TE-CCL (JSON): epochs, and the paths of each chunk of an all-to-all.

These parts of a file are read:

- ``1-Epoch_Duration``, in seconds.
- The size of a chunk in units of 10^9 bytes: ``9-Chunk_Size``, or ``5-Algo_Bandwidth`` times
  ``4-Collective_Finish_Time`` divided by the number of ranks.
- The object of chunk paths. Under "Demand at D for chunk C from S met by epoch E" it has a list of
  paths. A path is a list of [epoch, "A->B with volume V in epoch K via switches X, Y"]. The hop
  after a switch is one epoch later.

A number n is the node with this name, or the n-th node of the network.
"""

from __future__ import annotations

import bisect
import math
import re
from collections.abc import Hashable
from typing import Any, NamedTuple

from testbed.errors import InputError
from testbed_collectives.checker import Move, NodePair, TimedChunks
from topologies.network import Network

GIGABYTE_BITS = 8e9

# Rounded volumes may be slightly larger than 1.
_MAX_VOLUME = 1.01
# Longer numbers are no epoch or index; they would take long to convert.
_MAX_DIGITS = 9

_DEMAND = re.compile(r"Demand at (\d+) for chunk (\d+) from (\d+) met by epoch (\d+)")
_HOP = re.compile(
    r"(\d+)->(\d+)"
    r"(?: with volume (\d[\d.eE+-]*))?"
    r" in epoch (\d+)"
    r"(?: at rate [\d.eE+-]+)?"
    r"(?: via switches ([\d,> -]+))?"
)

# Source, sink, and number.
Chunk = tuple[str, str, int]


def is_teccl(document: Any) -> bool:
    """Return whether a document has the keys of a schedule of TE-CCL."""
    return isinstance(document, dict) and "1-Epoch_Duration" in document


def read_teccl(document: dict[str, Any], text: str, network: Network) -> TimedChunks:
    """Read a schedule of TE-CCL.

    Args:
        document: The parsed file.
        text: The text of the file, to find lines for messages.
        network: The network to which its nodes belong.

    Raises:
        InputError: Something is no chunk, no hop or no node of the network. The message has the
            line.
    """
    lines = _Lines(text)
    slot_s = _positive(document, "1-Epoch_Duration")
    paths_by_demand = None
    for key, value in document.items():
        if key.lower().endswith("chunk paths"):
            paths_by_demand = value
            break
    if not isinstance(paths_by_demand, dict) or not paths_by_demand:
        raise InputError('TE-CCL: give the chunk paths ("8-Chunk paths") of an all-to-all exchange')
    wanted: dict[Hashable, NodePair] = {}
    moves: list[Move] = []
    ranks: set[str] = set()
    for text_of_demand, paths in paths_by_demand.items():
        demand = _demand(network, text_of_demand, paths, lines.find(text_of_demand))
        source, sink, _ = demand.chunk
        wanted[demand.chunk] = (source, sink)
        ranks |= {source, sink}
        moves += _moves(network, demand, paths, lines)
    return TimedChunks(
        wanted=wanted,
        moves=moves,
        chunk_bits=_chunk_gigabytes(document, len(ranks)) * GIGABYTE_BITS,
        slot_s=slot_s,
    )


def _chunk_gigabytes(document: dict[str, Any], ranks: int) -> float:
    """Return the size of a chunk in units of 10^9 bytes."""
    if "9-Chunk_Size" in document:
        return _positive(document, "9-Chunk_Size")
    bandwidth = _positive(document, "5-Algo_Bandwidth")
    return bandwidth * _positive(document, "4-Collective_Finish_Time") / ranks


class _Demand(NamedTuple):
    """A demand of a file.

    Attributes:
        chunk: The chunk.
        name: Name of the chunk for messages.
        line: Line of the demand in the file.
    """

    chunk: Chunk
    name: str
    line: int


def _demand(network: Network, text: str, paths: Any, line: int) -> _Demand:
    """Read a demand; ``text`` is its key in the file, and ``paths`` its value."""
    match = _DEMAND.fullmatch(text)
    if match is None or not isinstance(paths, list):
        raise InputError(
            f"TE-CCL: line {line}: {text[:60]!r}: "
            'give "Demand at D for chunk C from S met by epoch E"'
        )
    sink, number, source, _ = match.groups()
    chunk = (_node(network, source, line), _node(network, sink, line), int(number))
    return _Demand(chunk, f"chunk {number} from {source}", line)


def _moves(network: Network, demand: _Demand, paths: list[Any], lines: _Lines) -> list[Move]:
    """Return the movements of a chunk along its paths."""
    if any(isinstance(path, str) for path in paths):
        raise InputError(
            "TE-CCL: this is the schedule of an allgather, in which several nodes want one chunk;"
            " only schedules of an all-to-all exchange are read"
        )
    moves = []
    for path in paths:
        if not isinstance(path, list):
            raise InputError(
                f"TE-CCL: line {demand.line}: a path of {demand.name} is no list of hops"
            )
        for hop in path:
            moves.append(_move(network, demand.chunk, hop, lines))
    return moves


def _move(network: Network, chunk: Chunk, hop: Any, lines: _Lines) -> Move:
    """Return the movement of a hop, which is [epoch, text]."""
    segment = hop[1] if isinstance(hop, list) and len(hop) == 2 else None
    if not isinstance(segment, str):
        raise InputError(f"TE-CCL: chunk {chunk}: a hop is {str(hop)[:60]}; give [epoch, text]")
    line = lines.find(segment)
    match = _HOP.fullmatch(segment)
    if match is None:
        raise InputError(
            f'TE-CCL: line {line}: {segment[:60]!r}: give "A->B with volume V in epoch K"'
        )
    first, last, volume_text, epoch, switches = match.groups()
    volume = _volume(volume_text)
    if not 0 < volume <= _MAX_VOLUME or len(epoch) > _MAX_DIGITS:
        raise InputError(
            f"TE-CCL: line {line}: {segment[:60]!r}: "
            "give a volume above 0 and up to 1, and an epoch"
        )
    names = [first, *re.findall(r"\d+", switches or ""), last]
    nodes = tuple(_node(network, name, line) for name in names)
    return Move(chunk=chunk, nodes=nodes, slot=int(epoch), volume=volume, line=line)


def _volume(text: str | None) -> float:
    """Return a volume, which is 1 if there is no text, or NaN if the text is no number."""
    if text is None:
        return 1.0
    try:
        return float(text)
    except ValueError:
        return math.nan


def _node(network: Network, number: str, line: int) -> str:
    """Return the id of the node with this name or index."""
    if number in network.node_index:
        return number
    if len(number) < _MAX_DIGITS and int(number) < len(network.nodes):
        return network.nodes[int(number)].id
    raise InputError(
        f"TE-CCL: line {line}: node {number[:20]}: network {network.name!r} has "
        f"{len(network.nodes)} nodes"
    )


def _positive(document: dict[str, Any], key: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InputError(f"TE-CCL: {key}: {str(value)[:40]!r}: give a number above 0")
    return float(value)


class _Lines:
    """Finds the lines of texts in a file.

    The file is read in its order. Therefore each search begins where the previous one ended.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._position = 0
        self._line_ends = [match.start() for match in re.finditer("\n", text)]

    def find(self, text: str) -> int:
        """Return the line of the next occurrence of a quoted text, or the previous result."""
        position = self._text.find(f'"{text}"', self._position)
        if position >= 0:
            self._position = position + 1
        return bisect.bisect(self._line_ends, self._position) + 1
