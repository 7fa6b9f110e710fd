"""Plans read back from the JSON documents that are stored next to results."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.errors import InputError
from testbed.model.json_values import from_json
from testbed.stream.plan import FORMAT, StreamPlan
from topologies.errors import TopologyError
from topologies.files.node_link import parse_document
from topologies.network import Network


def plan_from_json(document: Mapping[str, Any]) -> StreamPlan:
    """Raises InputError for another format, and for a key that is missing or of the wrong kind."""
    if document.get("format") != FORMAT:
        raise InputError(
            f"plan: format {document.get('format')!r} is not {FORMAT}; make it again with this version"
        )
    try:
        network = parse_document(document.get("network"), str(document.get("network_name")))
    except TopologyError as error:
        raise InputError(f"plan: network: {error}") from None
    return from_json(StreamPlan, document, "plan", {Network: network})
