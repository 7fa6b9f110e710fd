"""Plans to JSON documents and back, so that a plan can be stored next to its results and handed from process to
process.

The network is written once, as a node-link document; the label splits in the plan name its links by their numbers.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from testbed.errors import InputError
from testbed.model.json_values import from_json, json_ready
from testbed.stream.plan import StreamPlan
from topologies.errors import TopologyError
from topologies.files.node_link import network_document, parse_document
from topologies.network import Network

FORMAT = 1


def plan_to_json(plan: StreamPlan) -> dict[str, Any]:
    """The whole plan as JSON-ready values; ``plan_from_json`` gives an equal plan back."""
    head = {"format": FORMAT, "network": network_document(plan.network), "network_name": plan.network.name}
    document: dict[str, Any] = head | json_ready(replace(plan, route=None), without=Network)
    del document["route"]
    return document


def plan_from_json(document: Mapping[str, Any]) -> StreamPlan:
    """Raises InputError for another format, and for a key that is missing or of the wrong kind."""
    if document.get("format") != FORMAT:
        raise InputError(f"plan: format {document.get('format')!r} is not {FORMAT}; make it again with this version")
    try:
        network = parse_document(document.get("network"), str(document.get("network_name")))
    except TopologyError as error:
        raise InputError(f"plan: network: {error}") from None
    return from_json(StreamPlan, document, "plan", {Network: network})
