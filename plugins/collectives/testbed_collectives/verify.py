"""What ``testbed schedule --verify FILE --network NETWORK`` says of a schedule that some program made: is every chunk
delivered, in order and within capacities, and how much longer does it take than any routes would allow?"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.routing.demands.flow_bound import equal_links, flow_bound
from testbed_collectives.checker import Move, Violation, capacities, check_moves
from testbed_collectives.reader import Algorithm, Carried, carry_out, read_algorithm
from testbed_collectives.teccl import is_teccl, read_teccl
from topologies.network import Network
from topologies.routing_tables import static_routing

MOST_BYTES = 64_000_000
MSCCL_SLOTS = 8
"""Blocks under way from rank to rank on a channel, at most."""
SHOWN = 5


def verify_xml(file: str, network: Network) -> dict[str, Any]:
    """An algorithm of MSCCL: rank k is the network's k-th host (k-th node where it has none). Its steps have no times:
    each block takes the first time frame in which all links of the static path are free, one a frame and link."""
    algorithm = read_algorithm(_text(file))
    ends = [node.id for node in network.hosts or network.nodes]
    if len(ends) < algorithm.ranks:
        raise InputError(
            f"{file}: {algorithm.ranks} ranks; network {network.name!r} has {len(ends)} end points"
        )
    route = static_routing(network)
    try:
        carried = carry_out(algorithm, MSCCL_SLOTS, lambda a, b: route(ends[a], ends[b]))
    except InputError as error:  # it reads what has not come, or is blocked: its steps are an algorithm that does not work
        line = re.search(r"line (\d+)", str(error))
        broken = Violation(kind="order", text=str(error), line=int(line[1]) if line else 0)
        return _judged(
            "MSCCL",
            equal_links(network),
            (_wanted(algorithm, ends), []),
            (1.0, 1.0),
            [broken],
            broken=True,
        )
    paths = {(a, b): route(ends[a], ends[b]) for _, a, b, _, _ in carried.moves}
    moves = [
        Move(
            chunk=chunk,
            nodes=(ends[a], *(link[1] for link in paths[a, b])),
            slot=frame,
            together=True,
            line=line,
        )
        for chunk, a, b, frame, line in carried.moves
    ]
    each = algorithm.chunks // algorithm.ranks
    misplaced = _misplaced(algorithm, carried, each)
    return _judged(
        "MSCCL", equal_links(network), (_wanted(algorithm, ends), moves), (1.0, 1.0), misplaced
    )


def _wanted(algorithm: Algorithm, ends: Sequence[str]) -> dict[Any, tuple[str, str]]:
    each = algorithm.chunks // algorithm.ranks
    return {
        (a, k): (ends[a], ends[k // each])
        for a in range(algorithm.ranks)
        for k in range(algorithm.chunks)
    }


def verify_json(file: str, network: Network) -> dict[str, Any]:
    """A schedule of TE-CCL, or one that ``testbed schedule --output`` wrote (its transfers are the chunks)."""
    text = _text(file)
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{file}: no JSON ({error})") from None
    if is_teccl(document):
        found = read_teccl(document, text, network)
        return _judged(
            "TE-CCL", network, (found.wanted, found.moves), (found.chunk_bits, found.slot_s), []
        )
    if not isinstance(document, dict) or not isinstance(document.get("transfers"), list):
        raise InputError(
            f"{file}: neither a schedule of TE-CCL nor transfers and frames of the testbed"
        )
    wanted, moves = _own(document, file, network)
    return _judged("testbed", equal_links(network), (wanted, moves), (1.0, 1.0), [])


def _judged(
    name: str,
    network: Network,
    said: tuple[dict[Any, tuple[str, str]], list[Move]],
    units: tuple[float, float],
    more: Sequence[Violation],
    *,
    broken: bool = False,
) -> dict[str, Any]:
    """``units``: bits of a chunk, seconds of a slot (1 and 1 over links of 1 bit/s: time frames). ``broken``: nothing
    was carried out."""
    (wanted, moves), (bits, slot_s) = said, units
    checked = [] if broken else check_moves(wanted, moves, capacities(network, bits, slot_s))
    violations = [*checked, *more]
    length = (1 + max((move.arrives for move in moves), default=-1)) * slot_s
    pairs = [ends for ends in wanted.values() if ends[0] != ends[1]]
    bound = 0.0
    if pairs:
        bound = (
            flow_bound(network, pairs, float("inf"))
            * bits
            / min(link.capacity_bps for link in network.links)
        )
    found = {
        "format": name,
        "network": network.name,
        "valid": not violations,
        "chunks": len(wanted),
        "length": length,
        "unit": "time frames" if name != "TE-CCL" else "s",
        "flow_bound": bound,
        "over_flow_bound": length / bound if bound else 1.0,
        "kinds": dict(Counter(one.kind for one in violations)),
        "violations": [
            {"kind": one.kind, "line": one.line or None, "text": one.text}
            for one in violations[:SHOWN]
        ],
    }
    return {**found, "text": _in_words(found)}


def _in_words(found: dict[str, Any]) -> str:
    """For people."""
    kinds = ", ".join(f"{count} of {kind}" for kind, count in found["kinds"].items())
    told = [
        f"{one['kind']}, line {one['line'] or '-'}: {one['text']}" for one in found["violations"]
    ]
    lines = [
        f"schedule           {found['format']}, {found['chunks']} chunks over {found['network']}",
        f"flow bound         {found['flow_bound']:.6g} {found['unit']}",
        f"length             {found['length']:.6g} ({found['over_flow_bound']:.4g} of the bound)",
        f"verdict            {'holds' if found['valid'] else 'does not hold: ' + kinds}",
    ]
    return "\n".join([*lines, *(f"first violation    {one}" for one in told[:1])])


def _misplaced(algorithm: Algorithm, carried: Carried, each: int) -> list[Violation]:
    """Output chunks that hold another block than they should; MSCCL's names for what the referee calls delivery."""
    return [
        Violation(kind="delivery", text=f"output chunk {k} of rank {rank} holds {output.get(k)}")
        for rank, output in enumerate(carried.outputs)
        for k in range(algorithm.chunks)
        if output.get(k) != (k // each, rank * each + k % each)
    ]


def _own(
    document: dict[str, Any], file: str, network: Network
) -> tuple[dict[Any, tuple[str, str]], list[Move]]:
    frames, wanted, moves = document.get("frames"), {}, []
    if not isinstance(frames, list) or not all(isinstance(frame, list) for frame in frames):
        raise InputError(f'{file}: give "frames": [[transfer, ...], ...]')
    paths: list[tuple[str, ...]] = []
    for number, links in enumerate(document["transfers"]):
        known = [
            network.link_of_label.get(link) if isinstance(link, str) else None
            for link in links or [None]
        ]
        if None in known:
            raise InputError(
                f"{file}: transfer {number}: {str(links)[:60]}: network {network.name!r} has no such links"
            )
        ids = [link for link in known if link is not None]
        if any(a[1] != b[0] for a, b in itertools.pairwise(ids)):
            raise InputError(f"{file}: transfer {number}: its links are no path")
        paths.append((ids[0][0], *(link[1] for link in ids)))
        wanted[number] = (paths[-1][0], paths[-1][-1])
    for slot, frame in enumerate(frames):
        for number in frame:
            if (
                isinstance(number, bool)
                or not isinstance(number, int)
                or not 0 <= number < len(paths)
            ):
                raise InputError(f"{file}: frame {slot}: {str(number)[:20]} is no transfer")
            moves.append(Move(chunk=number, nodes=paths[number], slot=slot, together=True))
    return wanted, moves


def _text(file: str) -> str:
    try:
        with Path(file).open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise InputError(f"{file}: more than {MOST_BYTES} bytes; give a smaller schedule")
        return content.decode()
    except OSError as error:
        raise InputError(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{file}: no text at byte {error.start}") from None
