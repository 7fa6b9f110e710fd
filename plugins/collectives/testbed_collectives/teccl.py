"""Reads the schedules that TE-CCL publishes (JSON): epochs, and the paths of each chunk of an all-to-all exchange.

Of a file are read ``1-Epoch_Duration`` (seconds), the size of a chunk (``9-Chunk_Size``, or ``5-Algo_Bandwidth`` times
``4-Collective_Finish_Time`` over the ranks; in units of 10^9 bytes), and the object of chunk paths: under "Demand at D
for chunk C from S met by epoch E" a list of paths, each a list of [epoch, "A->B with volume V in epoch K via switches
X, Y"]. The hop after a switch is an epoch later. Number n is the node of that name, or the network's n-th.
"""

from __future__ import annotations

import bisect
import math
import re
from dataclasses import dataclass
from typing import Any

from testbed.errors import InputError
from testbed_collectives.checker import Move
from topologies.network import Network

GIGABYTE_BITS = 8e9
_DEMAND = re.compile(r"Demand at (\d+) for chunk (\d+) from (\d+) met by epoch (\d+)")
_HOP = re.compile(
    r"(\d+)->(\d+)(?: with volume (\d[\d.eE+-]*))? in epoch (\d+)(?: at rate [\d.eE+-]+)?(?: via switches ([\d,> -]+))?"
)
Chunk = tuple[str, str, int]
"""Source, sink, number."""


@dataclass(frozen=True, kw_only=True)
class TimedChunks:
    """What a file says: who wants which chunk, what goes where in which slot, and how much both are."""

    wanted: dict[Chunk, tuple[str, str]]
    moves: list[Move]
    chunk_bits: float
    slot_s: float


def is_teccl(document: Any) -> bool:
    """Whether the document has the keys of such a file."""
    return isinstance(document, dict) and "1-Epoch_Duration" in document


def read_teccl(document: dict[str, Any], text: str, network: Network) -> TimedChunks:
    """InputError with the line for what is no chunk, no hop or no node of the network."""
    lines = _Lines(text)
    slot_s = _positive(document, "1-Epoch_Duration")
    paths = next((v for k, v in document.items() if k.lower().endswith("chunk paths")), None)
    if not isinstance(paths, dict) or not paths:
        raise InputError('TE-CCL: give the chunk paths ("8-Chunk paths") of an all-to-all exchange')
    wanted: dict[Chunk, tuple[str, str]] = {}
    moves: list[Move] = []
    for key, found in paths.items():
        line = lines.of(key)
        match = _DEMAND.fullmatch(key)
        if match is None or not isinstance(found, list):
            raise InputError(
                f'TE-CCL: line {line}: {key[:60]!r}: give "Demand at D for chunk C from S met by epoch E"'
            )
        sink, number, source, _ = match.groups()
        chunk = (_node(network, source, line), _node(network, sink, line), int(number))
        wanted[chunk] = chunk[:2]
        if any(isinstance(path, str) for path in found):
            raise InputError(
                "TE-CCL: this is the schedule of an allgather, in which several nodes want one chunk;"
                " only schedules of an all-to-all exchange are read"
            )
        for path in found:
            if not isinstance(path, list):
                raise InputError(
                    f"TE-CCL: line {line}: a path of chunk {number} from {source} is no list of hops"
                )
            moves += [_move(network, chunk, hop, lines) for hop in path]
    ranks = len({end for pair in wanted.values() for end in pair})
    size = (
        _positive(document, "9-Chunk_Size")
        if "9-Chunk_Size" in document
        else _positive(document, "5-Algo_Bandwidth")
        * _positive(document, "4-Collective_Finish_Time")
        / ranks
    )
    return TimedChunks(wanted=wanted, moves=moves, chunk_bits=size * GIGABYTE_BITS, slot_s=slot_s)


def _move(network: Network, chunk: Chunk, hop: Any, lines: _Lines) -> Move:
    segment = hop[1] if isinstance(hop, list) and len(hop) == 2 else None
    if not isinstance(segment, str):
        raise InputError(f"TE-CCL: chunk {chunk}: a hop is {str(hop)[:60]}; give [epoch, text]")
    line = lines.after(segment)
    match = _HOP.fullmatch(segment)
    if match is None:
        raise InputError(
            f'TE-CCL: line {line}: {segment[:60]!r}: give "A->B with volume V in epoch K"'
        )
    first, last, volume, epoch, switches = match.groups()
    names = [first, *re.findall(r"\d+", switches or ""), last]
    try:
        amount = 1.0 if volume is None else float(volume)
    except ValueError:
        amount = math.nan
    if not 0 < amount <= 1.01 or len(epoch) > 9:
        raise InputError(
            f"TE-CCL: line {line}: {segment[:60]!r}: give a volume above 0 and up to 1, and an epoch"
        )
    nodes = tuple(_node(network, name, line) for name in names)
    return Move(chunk=chunk, nodes=nodes, slot=int(epoch), volume=amount, line=line)


def _node(network: Network, number: str, line: int) -> str:
    if number in network.node_index:
        return number
    if len(number) < 9 and int(number) < len(network.nodes):
        return network.nodes[int(number)].id
    raise InputError(
        f"TE-CCL: line {line}: node {number[:20]}: network {network.name!r} has {len(network.nodes)} nodes"
    )


def _positive(document: dict[str, Any], key: str) -> float:
    value = document.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < math.inf:
        raise InputError(f"TE-CCL: {key}: {str(value)[:40]!r}: give a number above 0")
    return float(value)


class _Lines:
    """The line of a text, looked for from where the last one was found on: files are read in their order."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._breaks = [match.start() for match in re.finditer("\n", text)]

    def of(self, text: str) -> int:
        return self.after(text)

    def after(self, text: str) -> int:
        found = self._text.find(f'"{text}"', self._at)
        if found >= 0:
            self._at = found + 1
        return bisect.bisect(self._breaks, self._at) + 1
