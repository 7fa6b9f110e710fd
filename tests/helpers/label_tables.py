"""All 65,536 labels at once through flow tables and a wiring: the oracle of label rules, where a walk follows one
packet."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.errors import InputError
from testbed.model.label_split import LABELS
from testbed.openflow.flow_table import _MAX_HOPS, FlowTable, Packet, RuleWalker, _field_matches
from testbed.openflow.rules import DROP
from topologies.network import LinkId


def out_ports(table: FlowTable, packet: Packet) -> npt.NDArray[np.int64]:
    """Shape (65536,): the port for each label in ``udp_src`` of the packet, -1 where it is dropped."""
    ports = np.full(LABELS, -1, dtype=np.int64)
    rank = np.full(LABELS, -1, dtype=np.int64)
    for rule in table.rules:
        rest = [(n, w) for n, w in rule.match if n != "udp_src"]
        if not all(_field_matches(packet.get(name), want) for name, want in rest):
            continue
        hit = _labels_matched(
            next((want for name, want in rule.match if name == "udp_src"), (0, 0))
        )
        clash = (rank[hit] == rule.priority) & (ports[hit] != rule.out_port)
        if clash.any():
            label = np.arange(LABELS)[hit][clash.argmax()]
            raise InputError(
                f"switch {rule.dpid}: two rules of priority {rule.priority} match label {label}"
            )
        new = rank[hit] < rule.priority
        ports[hit] = np.where(new, rule.out_port, ports[hit])
        rank[hit] = np.where(new, rule.priority, rank[hit])
    ports[ports == DROP] = -1
    return ports


def label_loads(
    walker: RuleWalker, source: str, sink: str, udp_port: int
) -> tuple[dict[LinkId, int], int]:
    """Every label at once: labels on each link, and how many of the 65,536 reach the sink's host."""
    packet = walker.stream_packet(source, sink, udp_port)
    target = walker.wiring.host_at(sink).name
    device, first, _ = walker._far_end[walker.wiring.host_at(source).name, 0]
    loads: dict[LinkId, int] = {} if first is None else {first: LABELS}
    at = {device: np.ones(LABELS, dtype=bool)}
    arrived = 0
    for _ in range(_MAX_HOPS):
        nxt: dict[str, npt.NDArray[np.bool_]] = {}
        for name, labels in at.items():
            if name not in walker._switches:
                arrived += int(labels.sum()) if name == target else 0
                continue
            table = walker.tables.get(walker._switches[name].dpid)
            if table is None:
                continue
            ports = out_ports(table, packet)
            for port in (np.flatnonzero(np.bincount(ports[labels] + 1)) - 1).tolist():
                far = walker._far_end.get((name, port))
                if far is None:
                    continue
                moved = labels & (ports == port)
                if far[1] is not None:
                    loads[far[1]] = loads.get(far[1], 0) + int(moved.sum())
                nxt[far[0]] = nxt.get(far[0], np.zeros(LABELS, dtype=bool)) | moved
        if not nxt:
            return loads, arrived
        at = nxt
    raise InputError(f"stream from {source!r} goes round in a cycle")


def _labels_matched(want: int | str | tuple[int, int]) -> slice | npt.NDArray[np.bool_]:
    """Index of the labels that a value or (value, mask) matches: a range for a prefix, which is fast."""
    value, mask = want if isinstance(want, tuple) else (int(want), LABELS - 1)
    size = LABELS - mask
    if size & (size - 1) == 0:
        return slice(value, value + size)
    hit: npt.NDArray[np.bool_] = (np.arange(LABELS) & mask) == value
    return hit
