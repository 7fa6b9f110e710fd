"""Plans to JSON documents and back, so that a plan can be stored beside its results and handed from process to process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.model.label_split import LabelPath, LabelSplit
from testbed.stream.plan import RouteChange, StreamParameters, StreamPlan
from topologies.network import LinkId, Network
from topologies.node_link import network_document, parse_document

FORMAT = 1


def plan_to_json(plan: StreamPlan) -> dict[str, Any]:
    """The whole plan as JSON-ready values; ``plan_from_json`` gives an equal plan back."""
    return {
        "format": FORMAT,
        "network": network_document(plan.network),
        "network_name": plan.network.name,
        "method": plan.method,
        "forward": _split_to_json(plan.forward),
        "backward": _split_to_json(plan.backward),
        "stream": asdict(plan.stream),
        "faults": [asdict(f) | {"link": list(f.link)} for f in plan.faults],
        "absent": [list(link) for link in plan.absent],
        "changes": [_change_to_json(change) for change in plan.changes],
        "handover": plan.handover,
        "layers": plan.layers,
        "duration_s": plan.duration_s,
        "seed": plan.seed,
    }


def plan_from_json(document: Mapping[str, Any]) -> StreamPlan:
    """Raises InputError for another format or a missing key."""
    if document.get("format") != FORMAT:
        raise InputError(f"plan: format {document.get('format')!r} is not {FORMAT}; make it again with this version")
    try:
        network = parse_document(document["network"], document["network_name"])
        return StreamPlan(
            network=network,
            method=document["method"],
            forward=_split_from_json(document["forward"], network),
            backward=_split_from_json(document["backward"], network),
            stream=StreamParameters(**document["stream"]),
            faults=tuple(Fault(**{**f, "link": tuple(f["link"])}) for f in document["faults"]),
            absent=_links(document.get("absent", ())),
            changes=tuple(_change_from_json(c, network) for c in document.get("changes", ())),
            handover=document.get("handover", "after"),
            layers=document.get("layers"),
            duration_s=document["duration_s"],
            seed=document["seed"],
        )
    except (KeyError, TypeError) as error:
        raise InputError(f"plan: {error} is missing or of the wrong kind; make the plan again") from None


def _change_to_json(change: RouteChange) -> dict[str, Any]:
    return {
        "at_s": change.at_s,
        "appeared": [list(link) for link in change.appeared],
        "vanished": [list(link) for link in change.vanished],
        "forward": _split_to_json(change.forward),
        "backward": _split_to_json(change.backward),
    }


def _change_from_json(document: Mapping[str, Any], network: Network) -> RouteChange:
    return RouteChange(
        at_s=document["at_s"],
        appeared=_links(document["appeared"]),
        vanished=_links(document["vanished"]),
        forward=_split_from_json(document["forward"], network),
        backward=_split_from_json(document["backward"], network),
    )


def _links(document: Iterable[Any]) -> tuple[LinkId, ...]:
    return tuple((source, target, key) for source, target, key in document)


def _split_to_json(split: LabelSplit) -> dict[str, Any]:
    return {
        "source": split.source,
        "sink": split.sink,
        "paths": [{"start": p.start, "stop": p.stop, "links": list(p.links)} for p in split.paths],
    }


def _split_from_json(document: Mapping[str, Any], network: Network) -> LabelSplit:
    paths = (LabelPath(start=p["start"], stop=p["stop"], links=tuple(p["links"])) for p in document["paths"])
    return LabelSplit(network=network, source=document["source"], sink=document["sink"], paths=tuple(paths))
