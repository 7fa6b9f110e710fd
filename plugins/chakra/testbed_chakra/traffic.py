"""``testbed simulate --traffic NAME.et``: a Chakra trace, a file a rank, as messages with the times at which they
start."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.interconnect.parameters import SimulationParameters
from testbed.model.file_formats import TrafficFormat
from testbed_chakra.starts import trace_starts
from testbed_chakra.trace_files import read_rank
from topologies import Network


def read_trace(
    ending: str, named: str, network: Network, parameters: SimulationParameters
) -> Mapping[str, Any]:
    """The messages of the trace whose files are NAME.0.et, NAME.1.et and so on (or .et.json), and a summary of it."""
    files = _files(named, ending)
    ranks = [read_rank(_content(file), rank, str(file)) for rank, file in enumerate(files)]
    found = trace_starts(ranks, network, parameters)
    summary = {
        "ranks": len(ranks), "messages": len(found.starts_s), "finished_s": found.finished_s, "turns": found.turns,
    }  # fmt: skip
    return {**found.document, "chakra": summary}


def _files(named: str, ending: str) -> list[Path]:
    """NAME.0.et, NAME.1.et and so on, up to the first that there is not."""
    stem = named.removesuffix(ending)
    found: list[Path] = []
    while (file := Path(f"{stem}.{len(found)}{ending}")).is_file():
        found.append(file)
    if not found:
        raise InputError(
            f"--traffic {named}: there is no {stem}.0{ending}; a trace has a file for each rank, from 0"
        )
    return found


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"--traffic {file}: {error.strerror}") from None


def _wire(kind: int) -> bytes:
    """Metadata without content; node 1: a send (5) or a receive (6) of 8 bytes from rank 0 to rank 1."""
    attributes = [(b"comm_src", 0), (b"comm_dst", 1), (b"comm_size", 8)]
    node = bytes([0x08, 1, 0x18, kind])
    for name, value in attributes:
        attribute = bytes([0x0A, len(name)]) + name + bytes([0x48, value])
        node += bytes([0x52, len(attribute)]) + attribute
    return bytes([0, len(node)]) + node


def _json(kind: int) -> bytes:
    """The same node as ``_wire``'s."""
    values = {"comm_src": 0, "comm_dst": 1, "comm_size": 8}
    attributes = [{"name": name, "int64Val": str(value)} for name, value in values.items()]
    return json.dumps(
        {"id": "1", "type": f"COMM_{'SEND' if kind == 5 else 'RECV'}_NODE", "attr": attributes}
    ).encode()


def _example(ending: str, directory: Path) -> str:
    """Rank 0 sends one message to rank 1."""
    for rank, kind in enumerate((5, 6)):
        (directory / f"example.{rank}{ending}").write_bytes(
            (_wire if ending == ".et" else _json)(kind)
        )
    return str(directory / f"example{ending}")


TRACES = TrafficFormat(read=partial(read_trace, ".et"), example=partial(_example, ".et"))
TRACES_IN_JSON = TrafficFormat(
    read=partial(read_trace, ".et.json"), example=partial(_example, ".et.json")
)
