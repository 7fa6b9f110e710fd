"""``testbed simulate --traffic NAME.et``: a Chakra trace, a file a rank, as messages with the times at which they start."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import InputError

if TYPE_CHECKING:
    from testbed.interconnect.parameters import SimulationParameters
    from topologies import Network

SUFFIXES = (".et", ".et.json")


def is_trace(path: str | None) -> bool:
    """Whether the name is a trace's."""
    return path is not None and path.endswith(SUFFIXES)


def traced_traffic(
    args: argparse.Namespace, network: Network, parameters: SimulationParameters, *, failing: bool
) -> tuple[Mapping[str, Any], float, float]:
    """(document of messages, duration, warm-up): all of the trace is measured unless options say otherwise."""
    from testbed.interconnect.dependency_traces.chakra import read_rank
    from testbed.interconnect.dependency_traces.starts import trace_starts

    if failing:
        raise InputError(f"--traffic {args.traffic}: starts are found without failures; leave them out")
    files = _files(args.traffic)
    ranks = [read_rank(_content(file), rank, str(file)) for rank, file in enumerate(files)]
    found = trace_starts(ranks, network, parameters)
    last = max(message["time_s"] for message in found.document["messages"])
    summary = {
        "ranks": len(ranks), "messages": len(found.starts_s), "finished_s": found.finished_s, "turns": found.turns,
    }  # fmt: skip
    duration = args.duration if args.duration is not None else max(1e-6, 1.1 * last)
    return {**found.document, "chakra": summary}, duration, 0.0 if args.warm_up is None else args.warm_up


def _files(named: str) -> list[Path]:
    """NAME.0.et, NAME.1.et and so on, up to the first that there is not."""
    suffix = next(suffix for suffix in reversed(SUFFIXES) if named.endswith(suffix))
    stem = named.removesuffix(suffix)
    found: list[Path] = []
    while (file := Path(f"{stem}.{len(found)}{suffix}")).is_file():
        found.append(file)
    if not found:
        raise InputError(f"--traffic {named}: there is no {stem}.0{suffix}; a trace has a file for each rank, from 0")
    return found


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(f"--traffic {file}: {error.strerror}") from None
