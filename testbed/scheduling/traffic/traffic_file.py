"""Traffic and frame files: ``{"transfers": [[link, ...], ...]}``, and with ``"frames": [[transfer, ...], ...]`` a schedule of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from testbed.errors import InputError
from testbed.model.schedule import Schedule
from testbed.model.schemas import refuse_unknown
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_frames


def parse_traffic(document: Any, where: str) -> Traffic:
    """The traffic of a document; ``links`` in it, where given, are all links that there are. InputError names what is wrong."""
    if not isinstance(document, Mapping) or not isinstance(document.get("transfers"), list):
        raise InputError(f'{where}: give {{"transfers": [[link, ...], ...]}}')
    refuse_unknown(document, "schedule", where)
    for i, transfer in enumerate(document["transfers"]):
        if not isinstance(transfer, list):
            raise InputError(f"{where}: transfer {i} is no list of links: {str(transfer)[:60]}")
        for link in transfer:
            if isinstance(link, bool) or not isinstance(link, (str, int)):
                raise InputError(f"{where}: transfer {i}: link {str(link)[:60]!r} is neither text nor a whole number")
    known = document.get("links")
    if known is not None and not (isinstance(known, list) and all(isinstance(link, (str, int)) for link in known)):
        raise InputError(f"{where}: links is no list of names")
    try:
        return Traffic.from_transfers(document["transfers"], known=None if known is None else map(str, known))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def parse_frames(document: Any, traffic: Traffic, where: str) -> Schedule:
    """The checked schedule of a document's frames; InputError says which transfer is missing, doubled or in conflict."""
    frames = document.get("frames") if isinstance(document, Mapping) else None
    if not isinstance(frames, list) or not all(isinstance(frame, list) for frame in frames):
        raise InputError(f'{where}: give "frames": [[transfer, ...], ...]')
    try:
        check_frames(traffic, frames)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return Schedule.of_frames(frames, traffic.bottleneck_load, method="file")
