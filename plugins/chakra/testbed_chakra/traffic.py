"""Traffic of ``testbed simulate --traffic NAME.et``: a Chakra trace with a file for each rank.

The traffic consists of the messages of the trace with their starts.
"""

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
from testbed_chakra.trace_files import KINDS, read_rank
from topologies import Network


def read_trace(
    suffix: str, name: str, network: Network, parameters: SimulationParameters
) -> Mapping[str, Any]:
    """Return the messages of a trace, and a summary of the trace.

    Args:
        suffix: ".et", or ".et.json".
        name: Path of the files without the rank: NAME.et stands for NAME.0.et, NAME.1.et and so on.
        network: The network.
        parameters: Parameters of the simulation.
    """
    files = _files(name, suffix)
    ranks = [read_rank(_content(file), rank, str(file)) for rank, file in enumerate(files)]
    run = trace_starts(ranks, network, parameters)
    summary = {
        "ranks": len(ranks),
        "messages": len(run.starts_s),
        "finished_s": run.finished_s,
        "turns": run.turns,
    }
    return {**run.document, "chakra": summary}


def _files(name: str, suffix: str) -> list[Path]:
    """Return the files of the ranks from 0 on, up to the first one that does not exist."""
    stem = name.removesuffix(suffix)
    files: list[Path] = []
    while True:
        file = Path(f"{stem}.{len(files)}{suffix}")
        if not file.is_file():
            break
        files.append(file)
    if not files:
        raise InputError(
            f"--traffic {name}: there is no {stem}.0{suffix}; a trace has a file for each rank, "
            "from 0"
        )
    return files


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"--traffic {file}: {error.strerror}") from None


# The message of the example: its attributes.
_EXAMPLE = {"comm_src": 0, "comm_dst": 1, "comm_size": 8}


def _wire_example(kind: str) -> bytes:
    """Return a file with empty metadata and one node with the example's message."""
    # Each field is preceded by its number and wire type: id (1) and kind (3) of the node.
    node = bytes([0x08, 1, 0x18, KINDS.index(kind)])
    for name, value in _EXAMPLE.items():
        # Name (1) and integer (9) of an attribute, which is field 10 of the node.
        attribute = bytes([0x0A, len(name)]) + name.encode() + bytes([0x48, value])
        node += bytes([0x52, len(attribute)]) + attribute
    metadata_length = 0
    return bytes([metadata_length, len(node)]) + node


def _json_example(kind: str) -> bytes:
    """Return the node of ``_wire_example`` in JSON."""
    attributes = [{"name": name, "int64Val": str(value)} for name, value in _EXAMPLE.items()]
    return json.dumps({"id": "1", "type": f"{kind}_NODE", "attr": attributes}).encode()


def _write_example(suffix: str, directory: Path) -> str:
    """Write a trace in which rank 0 sends a message to rank 1, and return its name."""
    content_of = _wire_example if suffix == ".et" else _json_example
    for rank, kind in enumerate(("COMM_SEND", "COMM_RECV")):
        (directory / f"example.{rank}{suffix}").write_bytes(content_of(kind))
    return str(directory / f"example{suffix}")


TRACES = TrafficFormat(read=partial(read_trace, ".et"), example=partial(_write_example, ".et"))
TRACES_IN_JSON = TrafficFormat(
    read=partial(read_trace, ".et.json"), example=partial(_write_example, ".et.json")
)
