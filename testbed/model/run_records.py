"""The records of a finished run: what ``measurements.jsonl`` and ``manifest.json`` hold, as frozen values with their
JSON.

Sessions write them, the result store keeps them, pages and tables are drawn from them and from nothing else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from fractions import Fraction
from typing import Any

from testbed.errors import InputError
from testbed.model.json_values import from_json, json_ready
from testbed.model.routes import SplitRoute
from testbed.model.verdict import Check, Verdict
from topologies import Json, JsonObject, Network, label_of, link_fields

FORMAT = 1
"""Version of the layout of a run's directory; a reader refuses another."""


@dataclass(frozen=True, kw_only=True)
class LinkLoad:
    """One loaded link of a session's route. ``layer`` is 1-based, 0 where none; ``intervals`` are half-open label
    ranges."""

    source: str
    target: str
    key: int = 0
    load: Fraction
    layer: int = 0
    intervals: tuple[tuple[int, int], ...] = ()

    @property
    def label(self) -> str:
        """``a->b``, with ``#key`` for a parallel link."""
        return label_of((self.source, self.target, self.key))


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """One stream of the run: where, by what route, with which parameters (JSON-ready, units in the names)."""

    session: int
    title: str
    network: Json
    """Node-link document; a node may carry ``position`` [x, y]."""
    source: str
    sink: str
    method: str
    fabric: str
    links: tuple[LinkLoad, ...]
    parameters: Json = field(default_factory=dict)
    duration_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FaultOutcome:
    """What a run says of one fault, prediction beside measurement: fractions, seconds since the session's start,
    counts."""

    link: str
    kind: str
    start_s: float = 0.0
    stop_s: float = 0.0
    predicted_loss: float
    measured_loss: float | None = None
    interval: tuple[float, float] | None = None
    """Where the true loss lies given the measurement."""
    packets: int = 0
    predicted_block_size: float | None = None
    """None where nothing gets by, or where no block size that the sender may choose helps."""
    bound_block_size: float | None = None
    """What no order of labels can be below: ceil(M / (1 - loss)) or the base (loss: as often as the order takes the
    labels)."""
    measured_block_size: float | None = None
    """Where N settled: the median over the blocks of the steady part."""
    mean_block_size: float | None = None
    block_size_range: tuple[float, float] | None = None
    """Block sizes that the sender may settle at, given how well a loss can be distinguished from a measurement."""
    sender_reacted: bool = True
    reaction_s: float | None = None
    """From the failure to the first packet sent under the larger N; None: no larger N was called for, or none came
    (then not ``sender_reacted``)."""
    transient_blocks: int = 0
    """Blocks started before the reaction."""
    transient_blocks_lost: int = 0
    steady_blocks: int = 0
    undecodable_blocks: int = 0
    late_packets: int = 0
    transient_late_packets: int = 0
    port_status_s: float | None = None
    reaction_uncertainty_s: float = 0.0
    """How far the clocks of several machines leave the reaction open; 0: one clock."""
    undecided_packets: int = 0
    """Sent so near to the fault's beginning or end that the clocks of several machines cannot tell on which side."""


@dataclass(frozen=True, kw_only=True)
class FaultRecord(FaultOutcome):
    """A fault as a run keeps it. ``diagnosis``: whom the sender suspected (cables, right, certain,
    certain_after_packets, certain_after_s), where it diagnoses. ``passed``: what all checks of this fault say together;
    None: none is about it, or one cannot tell."""

    session: int
    passed: bool | None = None
    diagnosis: Json | None = None

    @property
    def loss_agrees(self) -> bool:
        """Whether the predicted loss is in the interval, give or take the 1/65536 to which switches know a share."""
        if self.measured_loss is None or self.interval is None:
            return False
        slack = 1 / 65536
        return self.interval[0] - slack <= self.predicted_loss <= self.interval[1] + slack


@dataclass(frozen=True, kw_only=True)
class TimelineRecord:
    """One value a bin of ``bin_s`` seconds; None where nothing was sent. Sequences have equal lengths."""

    session: int
    bin_s: float
    t_s: tuple[float, ...]
    sent_pps: tuple[float, ...]
    loss: tuple[float | None, ...]
    block_size: tuple[float | None, ...]
    redundancy: tuple[float | None, ...]

    def __post_init__(self) -> None:
        lengths = {
            len(getattr(self, name))
            for name in ("t_s", "sent_pps", "loss", "block_size", "redundancy")
        }
        if len(lengths) > 1:
            raise InputError(
                "timeline: its sequences differ in length; give one value a bin in each"
            )


@dataclass(frozen=True, kw_only=True)
class SummaryRecord:
    """How one session ended. A ROR of None is infinite (then ``infinite_links`` says why) or was not measured."""

    session: int
    verdict: Verdict
    ror_predicted: float | None = None
    ror_measured: float | None = None
    infinite_links: tuple[str, ...] = ()
    base_block_size: float | None = None
    figures: Json = field(default_factory=dict)
    """Further named figures for the reader: packets sent, blocks, lag of the sender."""


Record = SessionRecord | FaultRecord | TimelineRecord | SummaryRecord


RECORD_NAMES: Mapping[type[Record], str] = {
    SessionRecord: "session",
    FaultRecord: "fault",
    TimelineRecord: "timeline",
    SummaryRecord: "summary",
}
"""How ``record`` names each kind in ``measurements.jsonl``."""


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What was run, with what and on what. The store fills in ``name``, ``run``, ``started`` (ISO, UTC) and
    ``seconds``.

    ``study``: of a study its ``title``, what it ``does``, the claim that it ``answers`` and its ``deviations``.
    """

    name: str = ""
    run: str = ""
    started: str = ""
    seconds: float | None = None
    command: str
    seed: int = 1
    versions: Mapping[str, str] = field(default_factory=dict)
    machine: Json = field(default_factory=dict)
    capabilities: Json = field(default_factory=dict)
    plans: tuple[Json, ...] = ()
    interrupted: str | None = None
    study: Json = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        return {"format": FORMAT} | {
            f.name: json_ready(getattr(self, f.name)) for f in fields(self)
        }


@dataclass(frozen=True, kw_only=True)
class SessionRun:
    """All records of one session, together."""

    session: SessionRecord
    faults: tuple[FaultRecord, ...] = ()
    timeline: TimelineRecord | None = None
    summary: SummaryRecord | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """A run as read back. ``verdict`` is None where the run did not finish; then ``unfinished`` says why in words."""

    manifest: Manifest
    sessions: tuple[SessionRun, ...]
    verdict: Verdict | None
    unfinished: str | None = None


def session_record(
    route: SplitRoute,
    *,
    session: int,
    fabric: str,
    intervals: Mapping[int, Sequence[tuple[int, int]]],
    **more: object,
) -> SessionRecord:
    """The record of a session over the route; ``intervals``: link index -> label intervals; ``more``: further
    fields."""
    network = route.network
    layers = route.link_layers or (0,) * len(network.links)
    links = tuple(
        LinkLoad(
            source=network.links[i].source,
            target=network.links[i].target,
            key=network.links[i].key,
            load=route.loads[i],
            layer=layers[i],
            intervals=tuple(intervals.get(i, ())),
        )
        for i in route.loaded
    )
    values: JsonObject = {"title": network.name, "network": network_document(network)} | more
    return SessionRecord(
        session=session,
        source=route.source,
        sink=route.sink,
        method=route.method,
        fabric=fabric,
        links=links,
        **values,
    )


def network_document(network: Network) -> JsonObject:
    """What a drawing needs of a network, as a node-link document: ids, kinds, positions, link ends."""
    nodes = [
        {"id": n.id, "kind": n.kind}
        | ({"position": list(n.position)} if n.position else {})
        | {name: n.attributes[name] for name in ("coordinates",) if name in n.attributes}
        for n in network.nodes
    ]
    graph = {"name": network.name} | {
        k: network.attributes[k] for k in ("shape", "wraps") if k in network.attributes
    }
    links = [
        link_fields(link.id) | {"capacity_bps": link.capacity_bps, "delay_s": link.delay_s}
        for link in network.links
    ]
    return {"directed": True, "multigraph": True, "graph": graph, "nodes": nodes, "links": links}


def combined_verdict(run: Sequence[SessionRun]) -> Verdict:
    """One verdict of all streams: each check under its stream's title; invalid where any stream is.

    Of several streams, what a check is about begins with its own ("session:1/fault:3"). A stream that has no summary
    did not end, so that the whole is invalid.
    """
    checks: list[Check] = []
    reasons: list[str] = []
    notes: list[str] = []
    for part in run:
        title = part.session.title
        if part.summary is None:
            reasons.append(f"{title}: the stream did not end")
            continue
        verdict = part.summary.verdict
        own = f"session:{part.session.session}" if len(run) > 1 else ""
        for check in verdict.checks:
            about = "/".join(filter(None, (own, check.about)))
            checks.append(replace(check, name=f"{title}: {check.name}", about=about))
        notes += [f"{title}: {note}" for note in verdict.notes]
        if verdict.invalid is not None:
            reasons.append(f"{title}: {verdict.invalid}")
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None, notes=tuple(notes))


def group_sessions(records: Sequence[Record]) -> tuple[SessionRun, ...]:
    """Records in any order to sessions in the order of their numbers.

    Raises InputError for a record of a session that has no session record, and for a second one of its kind.
    """
    single: dict[type[Record], dict[int, Any]] = {
        SessionRecord: {},
        TimelineRecord: {},
        SummaryRecord: {},
    }
    faults: dict[int, list[FaultRecord]] = {}
    for record in records:
        if isinstance(record, FaultRecord):
            faults.setdefault(record.session, []).append(record)
        elif record.session in single[type(record)]:
            raise InputError(
                f"session {record.session} has two {RECORD_NAMES[type(record)]} records; keep one"
            )
        else:
            single[type(record)][record.session] = record
    sessions = single[SessionRecord]
    for record in records:
        if record.session not in sessions:
            raise InputError(
                f"a {RECORD_NAMES[type(record)]} record names session {record.session}, which has no session record"
            )
    return tuple(
        SessionRun(
            session=sessions[number],
            faults=tuple(faults.get(number, ())),
            timeline=single[TimelineRecord].get(number),
            summary=single[SummaryRecord].get(number),
        )
        for number in sorted(sessions)
    )


_KINDS: Mapping[str, type[Record]] = {name: kind for kind, name in RECORD_NAMES.items()}


def record_to_json(record: Record) -> JsonObject:
    """One line of ``measurements.jsonl``: the fields and ``record``, which names the kind of record."""
    document = json_ready(record)
    if isinstance(record, SummaryRecord):
        document["ror"] = {
            "predicted": document.pop("ror_predicted"),
            "measured": document.pop("ror_measured"),
        }
        document["verdict"] = json_ready(record.verdict.to_json())
    return {"record": RECORD_NAMES[type(record)]} | document


def record_from_json(document: object, where: str) -> Record:
    """The record that ``record_to_json`` wrote; keys that it does not know are left out.

    Raises InputError with ``where`` and the key that is missing or of the wrong kind.
    """
    document = document if isinstance(document, Mapping) else {}
    name = document.get("record")
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise InputError(
            f"{where}: {str(name)[:40]!r} is no kind of record; give one of {', '.join(_KINDS)}"
        )
    if kind is SummaryRecord:
        ror = document.get("ror", {})
        if not isinstance(ror, Mapping):
            raise InputError(f"{where}: ror: {str(ror)[:40]} is not an object")
        document = {
            **document,
            "ror_predicted": ror.get("predicted"),
            "ror_measured": ror.get("measured"),
        }
    return from_json(kind, document, where)


def manifest_from_json(document: object, where: str) -> Manifest:
    """Raises InputError for another format, and for a key that is missing or of the wrong kind."""
    found = document.get("format") if isinstance(document, Mapping) else None
    if found != FORMAT:
        raise InputError(
            f"{where}: format {str(found)[:40]!r} is not {FORMAT}; read it with the version that wrote it"
        )
    return from_json(Manifest, document, where)
