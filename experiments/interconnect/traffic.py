"""Points of the interconnect studies, and the traffic and failures that each stands for (Zarza 2011, Tables 5.4-5.16)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from testbed.faults.cable_faults import faults_from_trace, intermittent_faults, random_faults
from testbed.faults.failure_traces import FailureTrace
from testbed.faults.fault import Fault
from testbed.faults.shapes import SHAPES, shape_faults, shape_walk
from testbed.faults.trace_generator import KNOWN_STATISTICS, generate_trace
from testbed.interconnect.injection import InjectionProcess, Injections, build_injections, burst_at, merge
from testbed.interconnect.patterns import (
    DestinationPattern,
    build_pattern,
    only_in_row,
    row_members,
    tornado_in_one_row,
)
from topologies import Network, load_network

STRIDE = 1000  # between seeds, so that studies with neighbouring --seed share none
TEN_PERCENT = {"torus:8x8": 12, "torus:16x16": 51, "fat-tree:4,3": 12}
SYNTHETIC = ("uniform", "bit-reversal", "butterfly", "shuffle", "transpose", "complement")

FULL_AND_QUICK_S = {
    "torus:8x8": (2.0, 0.4), "fat-tree:4,3": (2.0, 0.4), "torus:16x16": (1.5, 0.15), "torus:32x32": (0.8, 0.08),
}  # fmt: skip
"""Simulated time where every node has one destination (the document does not give it): `interconnect_lengths` shows that figures
stand still when it is doubled. A full run has 50,000 messages or more at 400 packets/s a node.

Studies that give a time of their own have fewer: scatter (one sender) some 800, the lone burst on a ring some 8,000."""
UNIFORM_S = {"torus:8x8": 8.0, "fat-tree:4,3": 8.0, "torus:16x16": 12.0}
"""That of a full run of uniform traffic: sources have so many destinations that it takes them longer to divert."""

RING_SHAPE, RING_ROW = (8, 8), 5
SLOT_S = 0.01
BURST_AT_S, BURST_MESSAGES = 1.18, 10
FIRST_SHOWN_SLOT = 117
"""The first of the four slots around the burst whose surface maps are shown."""

Point = Mapping[str, Any]


def seeds_of(seed: int, quick: bool, *, few: int = 2) -> range:
    """The seeds of a study's runs: 30, as the thesis has them, or few."""
    return range(seed, seed + (few if quick else 30) * STRIDE, STRIDE)


def drb_point(
    network: str, pattern: str, seed: int, *, quick: bool, full_s: float | None = None, **changed: Any
) -> dict[str, Any]:
    """One run of Zarza 2011, Tables 5.5 and 5.6: 512 B packets at 400 a second a node, 8 KB buffers, links of 2 Gbps.

    ``full_s`` is the simulated time of a full run where the study has its own; any entry may be changed, most often ``faults``, how many links fail, and ``fault_kind``: "start", "half",
    "random-start": permanent from the start, half-way, a random moment; "transient": up to a tenth of the run; "intermittent": ten times, a tenth of the run altogether;
    "shape:NAME:LEG"; "trace:MACHINE", "trace-permanent:MACHINE"; "none" where no link fails. Raises ValueError for anything
    else.
    """
    full, short = FULL_AND_QUICK_S[network]
    if full_s is not None:
        full = full_s
    elif pattern == "uniform":
        full = UNIFORM_S.get(network, full)
    point: dict[str, Any] = {
        "network": network,
        "pattern": pattern,
        "faults": 0,
        "fault_kind": "none",
        "seed": seed,
        "rate": 400.0,
        "bytes": 512,
        "buffer_bytes": 8192,
        "paths": 4,
        "routing": "ft-drb",
        "deadlock": "nac",
        "seconds": short if quick else full,
        "options": {},
    }
    return _changed(point, changed) | ({} if changed.get("faults") else {"fault_kind": "none"})


def ring_point(part: str, rate: float, seed: int, *, seconds: float, deadlock: str, **changed: Any) -> dict[str, Any]:
    """One run of Zarza 2011, Table 5.4: tornado in row 5 of the 8x8 torus, 2 KB packets, 4 KB buffers.

    What may be changed: ``burst``, so many messages a node in phase at 1.18 s; ``others``, a pattern at 200 packets/s in
    all other nodes. Raises ValueError for anything else.
    """
    point = {
        "part": part,
        "rate": rate,
        "seed": seed,
        "seconds": seconds,
        "deadlock": deadlock,
        "burst": 0,
        "others": "",
        "bytes": 2048,
        "buffer_bytes": 4096,
    }
    return _changed(point, changed)


def _changed(point: dict[str, Any], changed: dict[str, Any]) -> dict[str, Any]:
    if unknown := changed.keys() - point.keys():
        raise ValueError(f"points have no {', '.join(sorted(unknown))}")
    return point | changed


@lru_cache(maxsize=8)
def network_of(name: str) -> Network:
    """The network, built once a process."""
    return load_network(name)


def traffic_of(point: Point) -> Injections:
    """The messages of an FT-DRB run; every kind of failure meets the same."""
    network = network_of(point["network"])
    nodes = len(network.hosts)
    pattern = build_pattern(point["pattern"], nodes, root=point["seed"] % nodes)
    process = InjectionProcess(kind=point.get("injection", "poisson"), rate_per_s=point["rate"])
    return build_injections(pattern, process, duration_s=point["seconds"], seed=point["seed"])


def faults_of(point: Point) -> tuple[Fault, ...]:
    """The failures of an FT-DRB run."""
    network, seconds, seed = network_of(point["network"]), point["seconds"], [point["seed"], 7]
    kind, _, rest = point["fault_kind"].partition(":")
    count = point["faults"]
    if kind == "none":
        return ()
    if kind == "shape":
        shape, leg = rest.split(":")
        return shape_faults(network, shape, size=int(leg), seed=seed)
    if kind == "intermittent":
        return intermittent_faults(network, count, seed=seed, duration_s=seconds)
    if kind in ("trace", "trace-permanent"):
        trace = trace_of(rest, point.get("traces", ""), point["seed"])
        return faults_from_trace(network, trace, simulated_s=seconds, seed=seed, permanent=kind == "trace-permanent")
    starts = {"start": (0.0, 0.0), "half": (seconds / 2, seconds / 2)}.get(kind, (0.0, seconds))
    return random_faults(
        network, count, seed=seed, start_s=starts, duration_s=(0.0, seconds / 10) if kind == "transient" else None
    )


def trace_of(machine: str, directory: str, seed: int) -> FailureTrace:
    """The machine's trace from the public tables in that directory, or ("") a synthetic one of its statistics."""
    if not directory:
        return generate_trace(KNOWN_STATISTICS[machine], seed=[seed, 11], name=machine)
    from testbed.results.trace_files import read_trace

    if machine == "pnnl-mpp2":
        return read_trace(Path(directory) / "pnnl2007.csv.gz", skip_bad_rows=True)
    return read_trace(Path(directory) / "lanl.csv.gz", system=machine.removeprefix("lanl-"), skip_bad_rows=True)


def ring_traffic(point: Point) -> Injections:
    """The messages of a run of the ring: tornado in the row, its burst, and the pattern of all other nodes."""
    row = tornado_in_one_row(RING_SHAPE, RING_ROW)
    seconds, seed = point["seconds"], point["seed"]
    parts = [build_injections(row, InjectionProcess(rate_per_s=point["rate"]), duration_s=seconds, seed=seed)]
    if point["burst"]:
        parts.append(burst_at(row, time_s=BURST_AT_S, messages=point["burst"]))
    if point["others"]:
        rest = _outside_the_row(build_pattern(point["others"], RING_SHAPE[0] * RING_SHAPE[1]))
        parts.append(build_injections(rest, InjectionProcess(rate_per_s=200.0), duration_s=seconds, seed=[seed, 3]))
    return merge(parts)


def shape_drawing(leg: int) -> Any:
    """The four fault shapes as the links that fail."""
    import matplotlib.pyplot as plt

    figure, places = plt.subplots(1, 4, figsize=(9, 2.7))
    for axes, shape in zip(places, SHAPES, strict=True):
        points = shape_walk(shape, leg)
        low_x, low_y = min(x for x, _ in points), min(y for _, y in points)
        span = leg + 1
        for x in range(-1, span + 1):
            for y in range(-1, span + 1):
                axes.plot(x, y, "s", color="#c3c9d0", markersize=3)
        xs, ys = [x - low_x for x, _ in points], [y - low_y for _, y in points]
        axes.plot(xs, ys, "-", color="#b3261e", linewidth=2.2, label="failed links")
        axes.plot(xs, ys, "s", color="#16191d", markersize=3.5)
        axes.set_title(f"{shape}: {len(points) - 1} links", fontsize=10)
        axes.set_aspect("equal")
        axes.set_xlabel("x (routers)", fontsize=8)
        axes.set_ylabel("y (routers)", fontsize=8)
        axes.set_xticks([])
        axes.set_yticks([])
    places[0].legend(fontsize=7, frameon=False, loc="upper right")
    figure.suptitle("Shapes of failed links (red)", fontsize=11)
    figure.tight_layout()
    return figure


def _outside_the_row(pattern: DestinationPattern) -> DestinationPattern:
    inside = set(row_members(RING_SHAPE, RING_ROW))
    return only_in_row(pattern, [s for s in range(len(pattern.choices)) if s not in inside])
