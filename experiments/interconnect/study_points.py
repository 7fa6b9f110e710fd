"""Points of the interconnect studies, and the traffic and failures of each point.

The settings are those of Zarza 2011, Tables 5.4 to 5.16.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import lru_cache
from pathlib import Path
from typing import Any, Self

from testbed.faults.cable_faults import (
    faults_from_trace,
    intermittent_faults,
    random_faults,
    shape_faults,
)
from testbed.faults.failure_traces import KNOWN_STATISTICS, FailureTrace, generate_trace
from testbed.faults.fault import Fault
from testbed.interconnect.traffic.injection import (
    DestinationPattern,
    InjectionProcess,
    Injections,
    build_injections,
    build_pattern,
    burst_at,
    merge,
    only_in_row,
    row_members,
    tornado_in_one_row,
)
from testbed.model.studies import Points, Results, Row
from topologies import Network, load_network

# Distance between the seeds of a study. Studies with neighbouring --seed share no seed.
STRIDE = 1000

# The document has 30 runs for each figure.
FULL_SEEDS = 30

LINK_BPS = 2e9

# Packets of 512 bytes that a link carries per second.
LINK_PACKETS_PER_S = LINK_BPS / (8 * 512)

# A tenth of the links between routers, by network.
TEN_PERCENT = {"torus:8x8": 12, "torus:16x16": 51, "fat-tree:4,3": 12}

SYNTHETIC = ("uniform", "bit-reversal", "butterfly", "shuffle", "transpose", "complement")

# Simulated time of a full run, unless a study sets its own. The document gives none. The figures
# stay the same when it is doubled (docs/replication/chapter_5.md). A full run has 50,000 messages
# or more at 400 packets/s per node. Studies that set another time have fewer: scatter (one
# sender) 40,000, the single burst on a ring some 8,000.
FULL_S = {
    "torus:8x8": 2.0,
    "fat-tree:4,3": 2.0,
    "torus:16x16": 1.5,
    "torus:32x32": 0.8,
}

# The same for uniform traffic: a source with many destinations takes longer to divert them all.
UNIFORM_S = {"torus:8x8": 8.0, "fat-tree:4,3": 8.0, "torus:16x16": 12.0}

# Simulated time of a run with --quick.
QUICK_S = {
    "torus:8x8": 0.4,
    "fat-tree:4,3": 0.4,
    "torus:16x16": 0.15,
    "torus:32x32": 0.08,
}

# The ring is this row of a torus.
RING_SHAPE = (8, 8)
RING_ROW = 5

# Throughput and latency of the ring are counted in slots of this length.
SLOT_S = 0.01

# Time of the burst, and its messages per node.
BURST_AT_S = 1.18
BURST_MESSAGES = 10

# The slot in which the burst is. The small number makes up for the rounding of the division.
BURST_SLOT = int(BURST_AT_S / SLOT_S + 1e-6)

# The first of the four slots around the burst whose surface maps are shown.
FIRST_SHOWN_SLOT = 117

# Deviations of most of the studies from the document.
POISSON = "Messages come at random (Poisson). The document has a constant rate."
POISSON_512 = f"{POISSON} Payloads have 512 bytes only."

# Fields that are in a point only if a study adds them to it.
_OPTIONAL_FIELDS = ("injection", "switching", "router_delay_s", "traces")


@dataclass(frozen=True, kw_only=True)
class Run:
    """The simulated run of a point.

    The defaults are those of Zarza 2011, Tables 5.5 and 5.6.

    Attributes:
        network: Specification of the network.
        pattern: Name of the traffic pattern.
        faults: Number of links that fail.
        fault_kind: When the links fail. Permanently: "start" (of the run), "half" (after half of
            the run), "random-start" (at random moments). For a while: "transient" (up to a tenth
            of the run), "intermittent" (ten times, a tenth of the run altogether). Neighbouring
            links: "shape:NAME:LEG". Failures of a machine: "trace:MACHINE", or all permanent:
            "trace-permanent:MACHINE". Otherwise "none".
        seed: Seed of the run.
        rate: Messages per second and node.
        bytes: Size of a message, which is one packet.
        buffer_bytes: Size of a router's buffer.
        paths: Number of paths of a metapath.
        routing: Routing algorithm.
        deadlock: How deadlock is avoided.
        seconds: Simulated time.
        options: Fields of ``FtDrbOptions``.
        injection: Kind of injection.
        switching: Kind of switching.
        router_delay_s: Delay of a router. None: the delay in the document's model.
        traces: Directory of the public tables of failures. "": synthetic traces.
    """

    network: str
    pattern: str
    faults: int = 0
    fault_kind: str = "none"
    seed: int
    rate: float = 400.0
    bytes: int = 512
    buffer_bytes: int = 8192
    paths: int = 4
    routing: str = "ft-drb"
    deadlock: str = "nac"
    seconds: float
    options: Row = field(default_factory=dict)
    injection: str = "poisson"
    switching: str = "cut-through"
    router_delay_s: float | None = None
    traces: str = ""

    @classmethod
    def of(cls, point: Row) -> Self:
        """Return the run of a point. Other fields of the point are ignored."""
        settings = {}
        for each in fields(cls):
            if each.name in point:
                settings[each.name] = point[each.name]
        return cls(**settings)


def seeds_of(seed: int, quick: bool, *, few: int = 2) -> range:
    """Return the seeds of a study's runs.

    Args:
        seed: The first seed.
        quick: Whether the study is run with ``--quick``.
        few: The number of seeds with ``--quick``.
    """
    count = few if quick else FULL_SEEDS
    return range(seed, seed + count * STRIDE, STRIDE)


def drb_point(
    network: str,
    pattern: str,
    seed: int,
    *,
    quick: bool,
    full_s: float | None = None,
    **changed: Any,
) -> Results:
    """Return the point of a ``Run``.

    Args:
        network: Specification of the network.
        pattern: Name of the traffic pattern.
        seed: Seed of the run.
        quick: Whether the run has the short time of ``--quick``.
        full_s: Simulated time of a full run. None: the usual time.
        **changed: Values of other fields of ``Run``.

    Raises:
        TypeError: ``changed`` has a name that is not a field.
    """
    settings: Results = {
        "network": network,
        "pattern": pattern,
        "seed": seed,
        "seconds": _run_length_s(network, pattern, full_s, quick=quick),
        **changed,
    }
    if not changed.get("faults"):
        settings["fault_kind"] = "none"
    point = asdict(Run(**settings))
    for name in _OPTIONAL_FIELDS:
        del point[name]
    return point


def _run_length_s(network: str, pattern: str, full_s: float | None, *, quick: bool) -> float:
    if quick:
        return QUICK_S[network]
    if full_s is not None:
        return full_s
    if pattern == "uniform":
        return UNIFORM_S.get(network, FULL_S[network])
    return FULL_S[network]


def drb_points(
    network: str,
    pattern: str,
    seeds: Iterable[int],
    *,
    quick: bool,
    faults: int | Sequence[int] = 0,
    **changed: Any,
) -> Points:
    """Return the ``drb_point`` of each number of faults and each seed."""
    counts = [faults] if isinstance(faults, int) else faults
    points = []
    for count in counts:
        for seed in seeds:
            point = drb_point(network, pattern, seed, quick=quick, faults=count, **changed)
            points.append(point)
    return points


def ring_point(
    part: str, rate: float, seed: int, *, seconds: float, deadlock: str, **changed: object
) -> Results:
    """Return the point of a run of the ring (Zarza 2011, Table 5.4).

    The traffic is tornado in one row of the 8x8 torus, with packets of 2 KB and buffers of 4 KB.

    Args:
        part: Part of the study.
        rate: Messages per second and node.
        seed: Seed of the run.
        seconds: Simulated time.
        deadlock: How deadlock is avoided.
        **changed: Other fields. ``burst``: messages per node that are sent in phase at
            ``BURST_AT_S``. ``others``: the pattern of all other nodes, which send 200 packets/s.
    """
    return {
        "part": part,
        "rate": rate,
        "seed": seed,
        "seconds": seconds,
        "deadlock": deadlock,
        "burst": 0,
        "others": "",
        "bytes": 2048,
        "buffer_bytes": 4096,
        **changed,
    }


@lru_cache(maxsize=8)
def network_of(name: str) -> Network:
    """Return the network with this specification. It is built once per process."""
    return load_network(name)


def traffic_of(run: Run) -> Injections:
    """Return the messages of a run. They do not depend on its failures."""
    nodes = len(network_of(run.network).hosts)
    process = InjectionProcess(kind=run.injection, rate_per_s=run.rate)
    return _traffic(nodes, run.pattern, process, run.seconds, run.seed)


# Runs with the same traffic that follow each other share it.
@lru_cache(maxsize=1)
def _traffic(
    nodes: int, name: str, process: InjectionProcess, duration_s: float, seed: int
) -> Injections:
    pattern = build_pattern(name, nodes, root=seed % nodes)
    return build_injections(pattern, process, duration_s=duration_s, seed=seed)


def faults_of(run: Run) -> tuple[Fault, ...]:
    """Return the failures of a run."""
    network = network_of(run.network)
    # The second number separates the failures' random numbers from those of the traffic.
    seed = [run.seed, 7]
    kind, _, details = run.fault_kind.partition(":")
    if kind == "none":
        return ()
    if kind == "shape":
        shape, leg = details.split(":")
        return shape_faults(network, shape, size=int(leg), seed=seed)
    if kind == "intermittent":
        return intermittent_faults(network, run.faults, seed=seed, duration_s=run.seconds)
    if kind in ("trace", "trace-permanent"):
        trace = trace_of(details, run.traces, run.seed)
        permanent = kind == "trace-permanent"
        return faults_from_trace(
            network, trace, simulated_s=run.seconds, seed=seed, permanent=permanent
        )
    earliest_s = 0.0
    latest_s = run.seconds
    if kind == "start":
        latest_s = 0.0
    elif kind == "half":
        earliest_s = run.seconds / 2
        latest_s = run.seconds / 2
    duration_s = None
    if kind == "transient":
        duration_s = (0.0, run.seconds / 10)
    return random_faults(
        network, run.faults, seed=seed, start_s=(earliest_s, latest_s), duration_s=duration_s
    )


def trace_of(machine: str, directory: str, seed: int) -> FailureTrace:
    """Return the failure trace of a machine.

    Args:
        machine: Name of the machine, such as "lanl-12".
        directory: Directory of the public tables. "": a synthetic trace with their statistics.
        seed: Seed of a synthetic trace.
    """
    if not directory:
        return generate_trace(KNOWN_STATISTICS[machine], seed=[seed, 11], name=machine)
    # Imported here because most runs read no table.
    from testbed.results.trace_files import read_trace

    if machine == "pnnl-mpp2":
        return read_trace(Path(directory) / "pnnl2007.csv.gz", skip_bad_rows=True)
    system = machine.removeprefix("lanl-")
    return read_trace(Path(directory) / "lanl.csv.gz", system=system, skip_bad_rows=True)


def ring_traffic(point: Row) -> Injections:
    """Return the messages of a run of the ring.

    They are the tornado in the row, the burst, and the traffic of all other nodes.
    """
    seed = point["seed"]
    seconds = point["seconds"]
    row = tornado_in_one_row(RING_SHAPE, RING_ROW)
    row_process = InjectionProcess(rate_per_s=point["rate"])
    parts = [build_injections(row, row_process, duration_s=seconds, seed=seed)]
    if point["burst"]:
        parts.append(burst_at(row, time_s=BURST_AT_S, messages=point["burst"]))
    if point["others"]:
        background = _outside_the_row(build_pattern(point["others"], math.prod(RING_SHAPE)))
        process = InjectionProcess(rate_per_s=200.0)
        parts.append(build_injections(background, process, duration_s=seconds, seed=[seed, 3]))
    return merge(parts)


def _outside_the_row(pattern: DestinationPattern) -> DestinationPattern:
    """Return the pattern of the nodes outside the ring's row."""
    inside = set(row_members(RING_SHAPE, RING_ROW))
    outside = [node for node in range(len(pattern.choices)) if node not in inside]
    # The function keeps the sources that it is given, whether they are a row or not.
    return only_in_row(pattern, outside)
