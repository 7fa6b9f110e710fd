"""The records of a finished run, and their JSON in ``measurements.jsonl`` and ``manifest.json``.

Sessions create the records and the result store keeps them. Pages and tables are drawn from the
records alone.
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

# Version of the layout of a run's directory. Directories of other versions are refused.
FORMAT = 1

# The fraction of the packets on a link is a multiple of this, because there are 65,536 labels.
_SHARE_RESOLUTION = 1 / 65536


@dataclass(frozen=True, kw_only=True)
class LinkLoad:
    """A loaded link of a session's route.

    Attributes:
        source: Id of the node where the link begins.
        target: Id of the node where the link ends.
        key: Distinguishes parallel links.
        load: Fraction of the flow on the link.
        layer: Number of the capillary layer in which the link is a bottleneck, from 1, or 0.
        intervals: Half-open ranges of the labels on the link.
    """

    source: str
    target: str
    key: int = 0
    load: Fraction
    layer: int = 0
    intervals: tuple[tuple[int, int], ...] = ()

    @property
    def label(self) -> str:
        """The name of the link: ``a->b``, with ``#key`` for a parallel link."""
        return label_of((self.source, self.target, self.key))


@dataclass(frozen=True, kw_only=True)
class SessionRecord:
    """A stream of the run: its network, route and parameters.

    Attributes:
        session: Number of the session.
        title: Title of the session for people.
        network: Node-link document. A node may have a ``position`` [x, y].
        source: Id of the sending node.
        sink: Id of the receiving node.
        method: Name of the routing method.
        fabric: Where the stream ran, such as "emulation" or "simulator".
        links: The loaded links of the route.
        parameters: Parameters of the stream, JSON-ready, with the unit in each name.
        duration_s: Seconds that the stream took.
    """

    session: int
    title: str
    network: Json
    source: str
    sink: str
    method: str
    fabric: str
    links: tuple[LinkLoad, ...]
    parameters: Json = field(default_factory=dict)
    duration_s: float = 0.0


@dataclass(frozen=True, kw_only=True)
class FaultOutcome:
    """Predicted and measured effects of one fault.

    Moments are in seconds since the start of the session. N is the number of packets of a block.

    Attributes:
        link: Name of the link that failed.
        kind: Kind of the fault.
        start_s: When the fault began.
        stop_s: When the fault ended.
        predicted_loss: Predicted fraction of lost packets.
        measured_loss: Measured fraction of lost packets, or None.
        interval: The interval that contains the true loss, given the measurement.
        packets: Number of packets from which the loss was measured.
        predicted_block_size: Predicted N. None if no packet gets through, or if no N that the
            sender may choose helps.
        bound_block_size: Lower bound of N for every order of labels: ceil(M / (1 - loss)), with
            the loss that the order causes, or the base block size if that is larger.
        measured_block_size: Median of N over the blocks of the steady part.
        mean_block_size: Mean of N.
        block_size_range: The block sizes at which the sender may settle, given the precision with
            which it can measure a loss.
        sender_reacted: Whether the sender increased N if that was required.
        reaction_s: Seconds from the failure to the first packet that was sent with the larger N.
            None if no larger N was required, or if ``sender_reacted`` is false.
        transient_blocks: Number of blocks that began before the reaction.
        transient_blocks_lost: How many of these could not be decoded.
        steady_blocks: Number of blocks that began after the reaction.
        undecodable_blocks: Number of blocks of the steady part that could not be decoded.
        late_packets: Number of source packets of the steady blocks that were delivered late.
        transient_late_packets: Number of source packets of the transient blocks that were
            delivered late.
        port_status_s: When a switch reported that its port had failed, or None.
        reaction_uncertainty_s: Error of the reaction in seconds because the clocks of several
            machines differ. 0 for one clock.
        undecided_packets: Number of packets that were sent so close to the beginning or end of the
            fault that the clocks of several machines cannot tell whether it affected them.
    """

    link: str
    kind: str
    start_s: float = 0.0
    stop_s: float = 0.0
    predicted_loss: float
    measured_loss: float | None = None
    interval: tuple[float, float] | None = None
    packets: int = 0
    predicted_block_size: float | None = None
    bound_block_size: float | None = None
    measured_block_size: float | None = None
    mean_block_size: float | None = None
    block_size_range: tuple[float, float] | None = None
    sender_reacted: bool = True
    reaction_s: float | None = None
    transient_blocks: int = 0
    transient_blocks_lost: int = 0
    steady_blocks: int = 0
    undecodable_blocks: int = 0
    late_packets: int = 0
    transient_late_packets: int = 0
    port_status_s: float | None = None
    reaction_uncertainty_s: float = 0.0
    undecided_packets: int = 0


@dataclass(frozen=True, kw_only=True)
class FaultRecord(FaultOutcome):
    """The effects of a fault, as they are stored.

    Attributes:
        session: Number of the session.
        passed: Whether all checks of this fault passed. None if there is no check, or if one of
            them cannot tell.
        diagnosis: The links that the sender suspected, if it diagnoses faults, with the keys
            cables, right, certain, certain_after_packets and certain_after_s.
    """

    session: int
    passed: bool | None = None
    diagnosis: Json | None = None

    @property
    def loss_agrees(self) -> bool:
        """True if the interval of the measured loss contains the predicted loss."""
        if self.measured_loss is None or self.interval is None:
            return False
        low = self.interval[0] - _SHARE_RESOLUTION
        high = self.interval[1] + _SHARE_RESOLUTION
        return low <= self.predicted_loss <= high


@dataclass(frozen=True, kw_only=True)
class TimelineRecord:
    """A session over time, divided into bins. All sequences have one value for each bin.

    Attributes:
        session: Number of the session.
        bin_s: Length of a bin in seconds.
        t_s: Beginning of each bin, in seconds since the start of the session.
        sent_pps: Packets sent per second.
        loss: Fraction of lost packets, or None in a bin without packets.
        block_size: Mean number of packets (N) of a block, or None in a bin without packets.
        redundancy: N/M - 1, or None in a bin without packets.
    """

    session: int
    bin_s: float
    t_s: tuple[float, ...]
    sent_pps: tuple[float, ...]
    loss: tuple[float | None, ...]
    block_size: tuple[float | None, ...]
    redundancy: tuple[float | None, ...]

    def __post_init__(self) -> None:
        names = ("t_s", "sent_pps", "loss", "block_size", "redundancy")
        lengths = {len(getattr(self, name)) for name in names}
        if len(lengths) > 1:
            raise InputError(
                "timeline: its sequences differ in length; give one value a bin in each"
            )


@dataclass(frozen=True, kw_only=True)
class SummaryRecord:
    """The results of a session.

    Attributes:
        session: Number of the session.
        verdict: The verdict on the session.
        ror_predicted: Predicted redundancy overall requirement (ROR). None if it is infinite.
        ror_measured: Measured ROR. None if it was not measured.
        infinite_links: Names of the links whose failure no code can repair. If there are any, ROR
            is infinite.
        base_block_size: Number of packets per block outside faults.
        figures: Further numbers by name, such as packets sent, blocks, and delay of the sender.
    """

    session: int
    verdict: Verdict
    ror_predicted: float | None = None
    ror_measured: float | None = None
    infinite_links: tuple[str, ...] = ()
    base_block_size: float | None = None
    figures: Json = field(default_factory=dict)


Record = SessionRecord | FaultRecord | TimelineRecord | SummaryRecord


# The value of ``record`` for each kind of record in ``measurements.jsonl``.
RECORD_NAMES: Mapping[type[Record], str] = {
    SessionRecord: "session",
    FaultRecord: "fault",
    TimelineRecord: "timeline",
    SummaryRecord: "summary",
}


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The description of a run: what was run, by which versions, and on which machine.

    The result store sets ``name``, ``run``, ``started`` and ``seconds``.

    Attributes:
        name: Name under which runs of this kind are stored.
        run: Name of the run's directory.
        started: When the run began, in ISO 8601 (UTC).
        seconds: How long the run took.
        command: The command line.
        seed: Seed of the random generators.
        versions: Version of each program by its name.
        machine: Description of the machine.
        capabilities: What the machine supports.
        plans: The plans of the run's sessions.
        interrupted: Why the run did not end, or None.
        study: The title of a study, what it does, the claim that it answers, and its deviations
            from the documents. Empty for other runs.
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
        """Return the JSON document, which ``manifest_from_json`` reads."""
        document: JsonObject = {"format": FORMAT}
        for manifest_field in fields(self):
            document[manifest_field.name] = json_ready(getattr(self, manifest_field.name))
        return document


@dataclass(frozen=True, kw_only=True)
class SessionRun:
    """All records of one session."""

    session: SessionRecord
    faults: tuple[FaultRecord, ...] = ()
    timeline: TimelineRecord | None = None
    summary: SummaryRecord | None = None


@dataclass(frozen=True, kw_only=True)
class LoadedRun:
    """A stored run, as it was read.

    Attributes:
        manifest: The description of the run.
        sessions: The records of its sessions.
        verdict: The verdict on all sessions, or None if the run did not finish.
        unfinished: Why the run did not finish, or None.
    """

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
    """Return the record of a session over a route.

    Args:
        route: The route.
        session: Number of the session.
        fabric: Where the session runs, such as "emulation" or "simulator".
        intervals: Link index -> half-open label intervals on the link.
        **more: Further fields of SessionRecord.
    """
    network = route.network
    layers = route.link_layers or (0,) * len(network.links)
    links = []
    for i in route.loaded:
        link = network.links[i]
        links.append(
            LinkLoad(
                source=link.source,
                target=link.target,
                key=link.key,
                load=route.loads[i],
                layer=layers[i],
                intervals=tuple(intervals.get(i, ())),
            )
        )
    values: JsonObject = {"title": network.name, "network": network_document(network)} | more
    return SessionRecord(
        session=session,
        source=route.source,
        sink=route.sink,
        method=route.method,
        fabric=fabric,
        links=tuple(links),
        **values,
    )


def network_document(network: Network) -> JsonObject:
    """Return a node-link document with what a drawing of the network needs."""
    nodes = []
    for node in network.nodes:
        entry: JsonObject = {"id": node.id, "kind": node.kind}
        if node.position:
            entry["position"] = list(node.position)
        if "coordinates" in node.attributes:
            entry["coordinates"] = node.attributes["coordinates"]
        nodes.append(entry)
    graph: JsonObject = {"name": network.name}
    for key in ("shape", "wraps"):
        if key in network.attributes:
            graph[key] = network.attributes[key]
    links = [
        link_fields(link.id) | {"capacity_bps": link.capacity_bps, "delay_s": link.delay_s}
        for link in network.links
    ]
    return {"directed": True, "multigraph": True, "graph": graph, "nodes": nodes, "links": links}


def combined_verdict(run: Sequence[SessionRun]) -> Verdict:
    """Return the verdict on all streams of a run.

    The name of each check begins with the title of its stream. If there are several streams,
    ``about`` begins with the session: "session:1/fault:3". The verdict is invalid if that of any
    stream is, or if a stream has no summary because it did not end.
    """
    checks: list[Check] = []
    reasons: list[str] = []
    notes: list[str] = []
    for session_run in run:
        title = session_run.session.title
        if session_run.summary is None:
            reasons.append(f"{title}: the stream did not end")
            continue
        verdict = session_run.summary.verdict
        session_name = ""
        if len(run) > 1:
            session_name = f"session:{session_run.session.session}"
        for check in verdict.checks:
            about = "/".join(filter(None, (session_name, check.about)))
            checks.append(replace(check, name=f"{title}: {check.name}", about=about))
        notes += [f"{title}: {note}" for note in verdict.notes]
        if verdict.invalid is not None:
            reasons.append(f"{title}: {verdict.invalid}")
    return Verdict(checks=tuple(checks), invalid="; ".join(reasons) or None, notes=tuple(notes))


def group_sessions(records: Sequence[Record]) -> tuple[SessionRun, ...]:
    """Group records by their session, in the order of the session numbers.

    Args:
        records: The records in any order.

    Raises:
        InputError: A record belongs to a session without a session record, or a session has two
            records of a kind of which there is one.
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
                f"a {RECORD_NAMES[type(record)]} record names session {record.session}, "
                "which has no session record"
            )
    session_runs = []
    for number in sorted(sessions):
        session_run = SessionRun(
            session=sessions[number],
            faults=tuple(faults.get(number, ())),
            timeline=single[TimelineRecord].get(number),
            summary=single[SummaryRecord].get(number),
        )
        session_runs.append(session_run)
    return tuple(session_runs)


_KINDS: Mapping[str, type[Record]] = {name: kind for kind, name in RECORD_NAMES.items()}


def record_to_json(record: Record) -> JsonObject:
    """Return a line of ``measurements.jsonl`` as JSON: the fields, and ``record`` for the kind."""
    document = json_ready(record)
    if isinstance(record, SummaryRecord):
        document["ror"] = {
            "predicted": document.pop("ror_predicted"),
            "measured": document.pop("ror_measured"),
        }
        document["verdict"] = json_ready(record.verdict.to_json())
    return {"record": RECORD_NAMES[type(record)]} | document


def record_from_json(document: object, where: str) -> Record:
    """Return the record that ``record_to_json`` converted to JSON. Unknown keys are ignored.

    Args:
        document: The JSON value.
        where: How errors begin.

    Raises:
        InputError: A value is missing or of the wrong kind. The message names its key.
    """
    if not isinstance(document, Mapping):
        document = {}
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
    """Return the manifest that ``Manifest.to_json`` converted to JSON.

    Args:
        document: The JSON value.
        where: How errors begin.

    Raises:
        InputError: The format is another version's, or a value is missing or of the wrong kind.
    """
    version = document.get("format") if isinstance(document, Mapping) else None
    if version != FORMAT:
        raise InputError(
            f"{where}: format {str(version)[:40]!r} is not {FORMAT}; "
            "read it with the version that wrote it"
        )
    return from_json(Manifest, document, where)
