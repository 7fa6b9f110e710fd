"""Files of traffics and schedules.

A traffic is ``{"transfers": [[link, ...], ...]}``. With a further key
``"frames": [[transfer, ...], ...]`` it is a schedule.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from testbed.errors import InputError
from testbed.model.json_values import read_json
from testbed.model.naming.names import read_link
from testbed.model.schedule import Schedule
from testbed.model.schemas import refuse_unknown
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_frames
from topologies import Network


def parse_traffic(document: object, where: str) -> Traffic:
    """Return the traffic of a JSON document.

    If the document has ``links``, they are all links that exist.

    Args:
        document: The document.
        where: The text with which messages begin.

    Raises:
        InputError: The document is invalid.
    """
    if not isinstance(document, Mapping) or not isinstance(document.get("transfers"), list):
        raise InputError(f'{where}: give {{"transfers": [[link, ...], ...]}}')
    refuse_unknown(document, "schedule", where)
    for i, transfer in enumerate(document["transfers"]):
        if not isinstance(transfer, list):
            raise InputError(f"{where}: transfer {i} is not a list of links: {str(transfer)[:60]}")
        for link in transfer:
            if isinstance(link, bool) or not isinstance(link, (str, int)):
                raise InputError(
                    f"{where}: transfer {i}: link {str(link)[:60]!r} is neither text nor a whole "
                    "number"
                )
    # The number 1 and the text "1" are the same link.
    transfers = [map(str, transfer) for transfer in document["transfers"]]
    links = _parse_links(document.get("links"), where)
    try:
        return Traffic.from_transfers(transfers, link_names=links)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


def _parse_links(links: object, where: str) -> list[str] | None:
    """Return the names of all links, or None if the document does not list them."""
    if links is None:
        return None
    if not isinstance(links, list) or not all(isinstance(link, (str, int)) for link in links):
        raise InputError(f"{where}: links is not a list of names")
    return list(map(str, links))


@dataclass(frozen=True, kw_only=True)
class CarriedSchedule:
    """A schedule that is to be executed on a network.

    Attributes:
        pairs: Source and sink of each transfer.
        paths: Names of the links of each transfer.
        frames: Numbers of the transfers of each frame.
        where: The text with which messages begin.
    """

    pairs: tuple[tuple[str, str], ...]
    paths: tuple[tuple[str, ...], ...]
    frames: tuple[tuple[int, ...], ...]
    where: str

    @property
    def ends(self) -> list[tuple[str, str, int]]:
        """Source, sink and number of the part of each transfer.

        Transfers of the same pair are parts of one message.
        """
        parts = Counter[tuple[str, str]]()
        ends = []
        for source, sink in self.pairs:
            ends.append((source, sink, parts[source, sink]))
            parts[source, sink] += 1
        return ends

    def require_path(self, number: int, labels: Sequence[str]) -> None:
        """Check that the network routes a transfer over the links of the schedule.

        Args:
            number: Number of the transfer.
            labels: Names of the links on which the network's routing sends the pair.

        Raises:
            InputError: The links differ.
        """
        if tuple(labels) != self.paths[number]:
            source, sink = self.pairs[number]
            raise InputError(
                f"{self.where}: transfer {number} goes over {', '.join(self.paths[number])}; "
                f"{source} to {sink} goes over {', '.join(labels)} here: give the network and the "
                "--routing that it was scheduled for"
            )


def parse_carried(document: object, network: Network, where: str) -> CarriedSchedule:
    """Return the schedule in the output of ``testbed schedule NETWORK --output``.

    Args:
        document: The JSON document.
        network: The network.
        where: The text with which messages begin.

    Raises:
        InputError: The document is not a valid schedule between hosts of the network.
    """
    schedule = parse_frames(document, parse_traffic(document, where), where)
    assert isinstance(document, Mapping)
    pairs = []
    paths = []
    for number, links in enumerate(document["transfers"]):
        labels = tuple(map(str, links))
        pairs.append(_ends_of(labels, network, f"{where}: transfer {number}"))
        paths.append(labels)
    frames = []
    for frame in schedule.frames:
        frames.append(tuple(map(int, frame)))
    return CarriedSchedule(
        pairs=tuple(pairs), paths=tuple(paths), frames=tuple(frames), where=where
    )


def _ends_of(labels: Sequence[str], network: Network, where: str) -> tuple[str, str]:
    """Return the source and the sink of a transfer.

    Args:
        labels: Names of its links, as ``a->b``.
        network: The network.
        where: The text with which messages begin.
    """
    fault = "names no links as a->b"
    if labels and all("->" in label for label in labels):
        source = read_link(labels[0], network)[0]
        sink = read_link(labels[-1], network)[1]
        if source != sink:
            return source, sink
        fault = f"goes from {source} back to {source}, over no other host"
    raise InputError(
        f"{where} {fault}; make it with testbed schedule NETWORK --pattern all-to-others (or a "
        "file of pairs) --output FILE"
    )


def read_schedule(file: str, network: Network) -> CarriedSchedule:
    """Read the schedule of a ``--schedule FILE``, which is to be executed on the network.

    Raises:
        InputError: The file is not a valid schedule between hosts of the network.
        TopologyError: The file cannot be read.
    """
    where = f"--schedule {file}"
    document = read_json(file, where, hint="give what testbed schedule --output wrote")
    return parse_carried(document, network, where)


def parse_frames(document: object, traffic: Traffic, where: str) -> Schedule:
    """Return the schedule in a JSON document, after checking it.

    Args:
        document: The document.
        traffic: Its traffic.
        where: The text with which messages begin.

    Raises:
        InputError: The frames are invalid. The message says which transfer is missing, listed twice
            or in conflict.
    """
    frames = document.get("frames") if isinstance(document, Mapping) else None
    if not isinstance(frames, list) or not all(isinstance(frame, list) for frame in frames):
        raise InputError(f'{where}: give "frames": [[transfer, ...], ...]')
    try:
        check_frames(traffic, frames)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return Schedule.of_frames(frames, traffic.bottleneck_load, method="file")
