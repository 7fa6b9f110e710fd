"""Made-up runs for tests of the result store, the page and the tables: the shape of real records, no measurement at
all."""

from __future__ import annotations

import functools
import itertools
import math
import random
from fractions import Fraction
from typing import Any

import networkx as nx

from testbed.model.run_records import (
    FaultRecord,
    LinkLoad,
    LoadedRun,
    Manifest,
    SessionRecord,
    SessionRun,
    SummaryRecord,
    TimelineRecord,
    combined_verdict,
)
from testbed.model.verdict import Check, Verdict

NSFNET = "0-1 0-2 0-3 1-2 1-7 2-5 3-4 3-10 4-5 4-6 5-9 5-12 6-7 7-8 8-9 8-11 8-13 10-11 10-13 11-12 12-13"
NSFNET_PLACES = (
    (0.05, 0.75), (0.08, 0.45), (0.12, 0.2), (0.25, 0.62), (0.38, 0.5), (0.45, 0.15), (0.5, 0.55),
    (0.6, 0.62), (0.7, 0.55), (0.75, 0.25), (0.62, 0.85), (0.86, 0.75), (0.9, 0.4), (0.95, 0.62),
)  # fmt: skip


def swiss_t1_like() -> dict[str, Any]:
    """Eight switches in a ring with chords, 64 processors, no positions."""
    cables = [(k, (k + 1) % 8) for k in range(8)] + [(k, (k + 3) % 8) for k in range(8)]
    nodes = [{"id": f"s{k + 1}", "kind": "switch"} for k in range(8)]
    links = [(f"s{a + 1}", f"s{b + 1}") for a, b in cables]
    links += [(b, a) for a, b in links]
    for k in range(32):
        nodes += [{"id": f"t{k}", "kind": "host"}, {"id": f"r{k}", "kind": "host"}]
        links += [(f"t{k}", f"s{k // 4 + 1}"), (f"s{k // 4 + 1}", f"r{k}")]
    return _document(nodes, links)


def cloud() -> dict[str, Any]:
    """The 14-node backbone with positions, an edge router on each cross-connect."""
    nodes = [
        {"id": f"x{k}", "kind": "switch", "position": list(p)} for k, p in enumerate(NSFNET_PLACES)
    ]
    pairs = [pair.split("-") for pair in NSFNET.split()]
    links = [(f"x{a}", f"x{b}") for a, b in pairs] + [(f"x{b}", f"x{a}") for a, b in pairs]
    for k in range(14):
        nodes.append({"id": f"h{k}", "kind": "host"})
        links += [(f"h{k}", f"x{k}"), (f"x{k}", f"h{k}")]
    return _document(nodes, links)


def manet(nodes: int = 115, seed: int = 3) -> dict[str, Any]:
    """Nodes at random in the unit square, linked within a range; one host each."""
    places, near = _near(nodes, seed)
    listed = [{"id": f"n{k}", "kind": "switch", "position": list(p)} for k, p in enumerate(places)]
    listed += [{"id": f"h{k}", "kind": "host", "position": list(p)} for k, p in enumerate(places)]
    links = [(f"n{a}", f"n{b}") for a, b in near] + [(f"n{b}", f"n{a}") for a, b in near]
    links += [(f"h{k}", f"n{k}") for k in range(nodes)] + [(f"n{k}", f"h{k}") for k in range(nodes)]
    return _document(listed, links)


@functools.cache
def _near(nodes: int, seed: int) -> tuple[list[tuple[float, float]], list[tuple[int, int]]]:
    """Places of the nodes, and those within the range of each other that joins all."""
    rng = random.Random(seed)
    places = [(rng.random(), rng.random()) for _ in range(nodes)]
    reach = math.sqrt(6.1 / nodes / math.pi)
    while True:
        near = [
            (a, b)
            for a in range(nodes)
            for b in range(a)
            if math.dist(places[a], places[b]) <= reach
        ]
        graph = nx.Graph(near)
        if len(graph) == nodes and nx.is_connected(graph):
            return places, near
        reach *= 1.05


def _document(nodes: list[dict[str, Any]], links: list[tuple[str, str]]) -> dict[str, Any]:
    listed = [
        {"source": a, "target": b, "key": 0, "capacity_bps": 1e7, "delay_s": 0.0} for a, b in links
    ]
    return {"directed": True, "multigraph": True, "graph": {}, "nodes": nodes, "links": listed}


def sample_session(
    number: int,
    title: str,
    document: dict[str, Any],
    source: str,
    sink: str,
    *,
    most_faults: int | None = 8,
    wrong: bool = False,
    invalid: str | None = None,
    seed: int = 1,
) -> SessionRun:
    """One session whose route follows edge-disjoint paths, whose measurements are its predictions and a little
    noise."""
    rng = random.Random(seed)
    links = _split(document, source, sink)
    session = SessionRecord(
        session=number,
        title=title,
        network=document,
        source=source,
        sink=sink,
        method="capillary",
        fabric="emulation",
        links=links,
        parameters={
            "rate_pps": 1000.0,
            "source_packets": 20,
            "symbol_bytes": 256,
            "labels": "stratified",
        },
    )
    failing = [link for link in links if link.load < 1][:most_faults]
    faults: list[FaultRecord] = []
    at = 0.8
    for k, link in enumerate(failing):
        faults.append(_fault(number, link, at, rng, wrong=wrong and k == 1))
        at = faults[-1].stop_s + 2.2
    forced = tuple(link.label for link in links if link.load == 1)[:1]
    checks = [
        Check(
            name=f"loss, {f.link} down",
            predicted=f.predicted_loss,
            measured=f.measured_loss,
            tolerance=0.008,
            passed=f.loss_agrees,
            detail=f"{f.packets} packets",
        )
        for f in faults
    ]
    verdict = Verdict(
        checks=tuple(checks), invalid=invalid, notes=("user-space datapath: rates below 50 Mbps",)
    )
    summary = SummaryRecord(
        session=number,
        verdict=verdict,
        ror_predicted=None if forced else 3.41,
        ror_measured=3.38,
        infinite_links=forced,
        base_block_size=22.0,
        figures={"sent_packets": 41230, "blocks": 1841, "sender_lag_s": 0.004},
    )
    return SessionRun(
        session=session,
        faults=tuple(faults),
        timeline=_timeline(number, faults, at, rng),
        summary=summary,
    )


def _split(document: dict[str, Any], source: str, sink: str) -> tuple[LinkLoad, ...]:
    graph = nx.DiGraph()
    graph.add_edges_from((li["source"], li["target"]) for li in document["links"])
    first, last = _inner(graph, source, sink)
    paths = sorted(nx.edge_disjoint_paths(graph, first, last), key=lambda p: (len(p), p))[:6]
    weights = [Fraction(w, sum(range(2, len(paths) + 2))) for w in range(len(paths) + 1, 1, -1)]
    loads: dict[tuple[str, str], Fraction] = {}
    layer: dict[tuple[str, str], int] = {}
    for k, (path, weight) in enumerate(zip(paths, weights, strict=True)):
        for edge in itertools.pairwise(path):
            loads[edge] = loads.get(edge, Fraction(0)) + weight
            layer[edge] = k + 1
    if first != source:
        loads[(source, first)] = Fraction(1)
    if last != sink:
        loads[(last, sink)] = Fraction(1)
    return tuple(
        LinkLoad(
            source=a,
            target=b,
            load=load,
            layer=layer.get((a, b), 0),
            intervals=((0, int(load * 65536)),),
        )
        for (a, b), load in loads.items()
    )


def _inner(graph: nx.DiGraph, source: str, sink: str) -> tuple[str, str]:
    first = next(iter(graph.successors(source))) if graph.out_degree(source) == 1 else source
    last = next(iter(graph.predecessors(sink))) if graph.in_degree(sink) == 1 else sink
    return first, last


def _fault(
    session: int, link: LinkLoad, at: float, rng: random.Random, *, wrong: bool
) -> FaultRecord:
    loss = float(link.load)
    measured = min(1.0, max(0.0, loss + rng.uniform(-0.004, 0.004) + (0.06 if wrong else 0)))
    size = math.ceil(20 / (1 - loss)) + 2
    return FaultRecord(
        session=session,
        link=link.label,
        kind="down",
        start_s=at,
        stop_s=at + 0.9,
        predicted_loss=loss,
        measured_loss=measured,
        interval=(max(0.0, measured - 0.008), min(1.0, measured + 0.008)),
        packets=700,
        predicted_block_size=size,
        measured_block_size=size + rng.choice((0, 0, 0.4)),
        block_size_range=(size - 1, size + 2),
        reaction_s=rng.uniform(0.06, 0.18),
        transient_blocks=7,
        transient_blocks_lost=rng.choice((0, 0, 1)),
        steady_blocks=35,
        port_status_s=at + rng.uniform(0.001, 0.012),
    )


def _timeline(
    session: int, faults: list[FaultRecord], end: float, rng: random.Random
) -> TimelineRecord:
    times = [round(k * 0.1, 6) for k in range(int(end / 0.1) + 1)]
    loss, size = [], []
    for t in times:
        active = next((f for f in faults if f.start_s <= t < f.stop_s), None)
        after = next((f for f in faults if f.start_s + 0.15 <= t < f.stop_s + 2.0), None)
        loss.append(max(0.0, active.predicted_loss + rng.uniform(-0.02, 0.02)) if active else 0.0)
        size.append(float(after.predicted_block_size or 22) if after else 22.0)
    return TimelineRecord(
        session=session,
        bin_s=0.1,
        t_s=tuple(times),
        sent_pps=tuple(50.0 * n for n in size),
        loss=tuple(loss),
        block_size=tuple(size),
        redundancy=tuple(n / 20 - 1 for n in size),
    )


def sample_manifest() -> Manifest:
    """A manifest as a run on a small machine would have it."""
    return Manifest(
        name="demo",
        run="20260102T030405Z-seed1",
        started="2026-01-02T03:04:05+00:00",
        seconds=93.4,
        command="testbed demo --seed 1",
        versions={"python": "3.11.2", "openvswitch": "3.1.0", "mininet": "2.3.0", "numpy": "2.1.0"},
        machine={"cores": 2, "memory_bytes": 8 * 2**30, "kernel": "6.1.0", "python": "3.11.2"},
        capabilities={
            "open_vswitch": {"available": True, "detail": "kernel datapath", "mend": ""},
            "netem": {"available": False, "detail": "no sch_netem", "mend": "load the module"},
        },
        plans=({"network": "swiss-t1", "method": "capillary", "source": "t0", "sink": "r31"},),
    )


def sample_run(
    *, wrong: bool = False, invalid: str | None = None, most_faults: int | None = 8
) -> LoadedRun:
    """Three sessions: Swiss-T1-like, a 14-node cloud, a MANET frame of 115 nodes."""
    sessions = (
        sample_session(
            0, "swiss-t1", swiss_t1_like(), "t0", "r18", most_faults=most_faults, seed=1
        ),
        sample_session(
            1, "optical-cloud", cloud(), "x0", "x13", most_faults=most_faults, wrong=wrong, seed=2
        ),
        sample_session(
            2,
            "manet:nodes=115,seed=3",
            manet(),
            "n7",
            "n60",
            most_faults=most_faults,
            invalid=invalid,
            seed=3,
        ),
    )
    return LoadedRun(
        manifest=sample_manifest(), sessions=sessions, verdict=combined_verdict(sessions)
    )
