"""Verifies schedules of other programs (``testbed schedule --verify FILE --network NETWORK``).

The result says whether every chunk is delivered, in order and within the capacities, and how much
longer the schedule takes than the flow bound. No schedule takes less, whatever its routes.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.routing.demands.flow_bound import equal_links, flow_bound
from testbed_collectives.checker import (
    Move,
    NodePair,
    TimedChunks,
    Violation,
    capacities,
    check_moves,
)
from testbed_collectives.reader import (
    Algorithm,
    Carried,
    carry_out,
    expected_block,
    read_algorithm,
)
from testbed_collectives.teccl import is_teccl, read_teccl
from topologies.network import Network
from topologies.routing_tables import static_routing

MAX_BYTES = 64_000_000
# Maximum number of messages in transit from one rank to another on a channel of MSCCL.
MSCCL_SLOTS = 8
# Number of violations in the result.
SHOWN_VIOLATIONS = 5


def verify_xml(file: str, network: Network) -> dict[str, Any]:
    """Verify an algorithm of MSCCL.

    Its steps have no times. Each block takes the first time frame in which all links of its static
    path are free. A link carries one block per frame.

    Args:
        file: Path of the file.
        network: The network. Rank k is its k-th host, or its k-th node if it has no hosts.

    Returns:
        The result as a JSON document.
    """
    algorithm = read_algorithm(_text(file))
    ends = [node.id for node in network.hosts or network.nodes]
    if len(ends) < algorithm.ranks:
        raise InputError(
            f"{file}: {algorithm.ranks} ranks; network {network.name!r} has {len(ends)} end points"
        )
    route = static_routing(network)
    wanted = _wanted(algorithm, ends)
    try:
        carried = carry_out(
            algorithm,
            MSCCL_SLOTS,
            lambda source, destination: route(ends[source], ends[destination]),
        )
    except InputError as error:
        # A step reads a chunk that has no block, or is blocked. The file is valid, but the
        # algorithm does not work.
        line = re.search(r"line (\d+)", str(error))
        violation = Violation(kind="order", text=str(error), line=int(line[1]) if line else 0)
        chunks = TimedChunks(wanted=wanted, moves=[])
        return _result("MSCCL", equal_links(network), chunks, [violation])
    moves = []
    for sent in carried.moves:
        source = ends[sent.source]
        path = route(source, ends[sent.destination])
        moves.append(
            Move(
                chunk=sent.block,
                nodes=(source, *(link[1] for link in path)),
                slot=sent.frame,
                together=True,
                line=sent.line,
            )
        )
    chunks = TimedChunks(wanted=wanted, moves=moves)
    network = equal_links(network)
    violations = _violations(network, chunks) + _misplaced(algorithm, carried)
    return _result("MSCCL", network, chunks, violations)


def _wanted(algorithm: Algorithm, ends: Sequence[str]) -> dict[Hashable, NodePair]:
    """Return source and sink of each block of an all-to-all exchange."""
    chunks_of_pair = algorithm.chunks // algorithm.ranks
    wanted: dict[Hashable, NodePair] = {}
    for rank in range(algorithm.ranks):
        for chunk in range(algorithm.chunks):
            wanted[rank, chunk] = (ends[rank], ends[chunk // chunks_of_pair])
    return wanted


def _misplaced(algorithm: Algorithm, carried: Carried) -> list[Violation]:
    """Return the output chunks that have another block than the one that belongs there."""
    chunks_of_pair = algorithm.chunks // algorithm.ranks
    violations = []
    for rank, output in enumerate(carried.outputs):
        for chunk in range(algorithm.chunks):
            block = output.get(chunk)
            if block != expected_block(rank, chunk, chunks_of_pair):
                text = f"output chunk {chunk} of rank {rank} holds {block}"
                violations.append(Violation(kind="delivery", text=text))
    return violations


def verify_json(file: str, network: Network) -> dict[str, Any]:
    """Verify a schedule of TE-CCL, or one that ``testbed schedule --output`` has written.

    In the latter, the transfers are the chunks.

    Args:
        file: Path of the file.
        network: The network.

    Returns:
        The result as a JSON document.
    """
    text = _text(file)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: no JSON ({error})") from None
    if is_teccl(document):
        chunks = read_teccl(document, text, network)
        return _result("TE-CCL", network, chunks, _violations(network, chunks))
    if not isinstance(document, dict) or not isinstance(document.get("transfers"), list):
        raise InputError(
            f"{file}: neither a schedule of TE-CCL nor transfers and frames of the testbed"
        )
    chunks = _read_frames(document, file, network)
    network = equal_links(network)
    return _result("testbed", network, chunks, _violations(network, chunks))


def _violations(network: Network, chunks: TimedChunks) -> list[Violation]:
    """Return the violations that the checker finds."""
    capacity_chunks = capacities(network, chunks.chunk_bits, chunks.slot_s)
    return check_moves(chunks.wanted, chunks.moves, capacity_chunks)


def _flow_bound(network: Network, chunks: TimedChunks) -> float:
    """Return the flow bound in seconds (or time frames), or 0 if nothing crosses the network."""
    pairs = [(source, sink) for source, sink in chunks.wanted.values() if source != sink]
    if not pairs:
        return 0.0
    smallest_bps = min(link.capacity_bps for link in network.links)
    return flow_bound(network, pairs, float("inf")) * chunks.chunk_bits / smallest_bps


def _result(
    format_name: str, network: Network, chunks: TimedChunks, violations: Sequence[Violation]
) -> dict[str, Any]:
    """Return the result as a JSON document.

    Args:
        format_name: Name of the file's format.
        network: The network.
        chunks: The schedule.
        violations: All violations.
    """
    slots = 1 + max((move.arrives for move in chunks.moves), default=-1)
    length = slots * chunks.slot_s
    bound = _flow_bound(network, chunks)
    shown_violations = []
    for violation in violations[:SHOWN_VIOLATIONS]:
        shown_violations.append(
            {"kind": violation.kind, "line": violation.line or None, "text": violation.text}
        )
    result: dict[str, Any] = {
        "format": format_name,
        "network": network.name,
        "valid": not violations,
        "chunks": len(chunks.wanted),
        "length": length,
        "unit": "s" if format_name == "TE-CCL" else "time frames",
        "flow_bound": bound,
        "over_flow_bound": length / bound if bound else 1.0,
        "kinds": dict(Counter(violation.kind for violation in violations)),
        "violations": shown_violations,
    }
    return {**result, "text": _report(result)}


def _report(result: dict[str, Any]) -> str:
    """Return the report for people."""
    verdict = "holds"
    if not result["valid"]:
        counts = ", ".join(f"{count} of {kind}" for kind, count in result["kinds"].items())
        verdict = f"does not hold: {counts}"
    schedule = f"{result['format']}, {result['chunks']} chunks over {result['network']}"
    relative_length = f"({result['over_flow_bound']:.4g} of the bound)"
    lines = [
        f"schedule           {schedule}",
        f"flow bound         {result['flow_bound']:.6g} {result['unit']}",
        f"length             {result['length']:.6g} {relative_length}",
        f"verdict            {verdict}",
    ]
    if result["violations"]:
        first = result["violations"][0]
        line = first["line"] or "-"
        lines.append(f"first violation    {first['kind']}, line {line}: {first['text']}")
    return "\n".join(lines)


def _read_frames(document: dict[str, Any], file: str, network: Network) -> TimedChunks:
    """Read the transfers and frames of a schedule that the testbed has written.

    Args:
        document: The parsed file, with a list of transfers.
        file: Path of the file, for messages.
        network: The network.
    """
    frames = document.get("frames")
    if not isinstance(frames, list) or not all(isinstance(frame, list) for frame in frames):
        raise InputError(f'{file}: give "frames": [[transfer, ...], ...]')
    paths = []
    wanted: dict[Hashable, NodePair] = {}
    for number, labels in enumerate(document["transfers"]):
        path = _path(labels, network, f"{file}: transfer {number}")
        paths.append(path)
        wanted[number] = (path[0], path[-1])
    moves = []
    for slot, frame in enumerate(frames):
        for number in frame:
            is_integer = isinstance(number, int) and not isinstance(number, bool)
            if not is_integer or not 0 <= number < len(paths):
                raise InputError(f"{file}: frame {slot}: {str(number)[:20]} is no transfer")
            moves.append(Move(chunk=number, nodes=paths[number], slot=slot, together=True))
    return TimedChunks(wanted=wanted, moves=moves)


def _path(labels: Any, network: Network, where: str) -> tuple[str, ...]:
    """Return the nodes of a path, from the labels of its links.

    Args:
        labels: The list of labels.
        network: The network.
        where: File and transfer, for messages.
    """
    links = []
    for label in labels or [None]:
        link = network.link_of_label.get(label) if isinstance(label, str) else None
        if link is None:
            raise InputError(
                f"{where}: {str(labels)[:60]}: network {network.name!r} has no such links"
            )
        links.append(link)
    for link, next_link in itertools.pairwise(links):
        if link[1] != next_link[0]:
            raise InputError(f"{where}: its links are no path")
    return (links[0][0], *(link[1] for link in links))


def _text(file: str) -> str:
    """Return the text of a file of at most ``MAX_BYTES``."""
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise InputError(f"{file}: more than {MAX_BYTES} bytes; give a smaller schedule")
        return content.decode()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: no text at byte {error.start}") from None
