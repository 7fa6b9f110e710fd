"""Traffic and frame files: ``{"transfers": [[link, ...], ...]}``, and with ``"frames": [[transfer, ...], ...]`` a
schedule of it."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from testbed.errors import InputError
from testbed.model.json_values import read_json
from testbed.model.naming.names import read_link
from testbed.model.schedule import Schedule
from testbed.model.schemas import refuse_unknown
from testbed.model.traffic import Traffic
from testbed.scheduling.checker import check_frames
from topologies import Network


def parse_traffic(document: object, where: str) -> Traffic:
    """The traffic of a document; ``links`` in it, where given, are all links that there are. InputError names what is
    wrong."""
    if not isinstance(document, Mapping) or not isinstance(document.get("transfers"), list):
        raise InputError(f'{where}: give {{"transfers": [[link, ...], ...]}}')
    refuse_unknown(document, "schedule", where)
    for i, transfer in enumerate(document["transfers"]):
        if not isinstance(transfer, list):
            raise InputError(f"{where}: transfer {i} is no list of links: {str(transfer)[:60]}")
        for link in transfer:
            if isinstance(link, bool) or not isinstance(link, (str, int)):
                raise InputError(
                    f"{where}: transfer {i}: link {str(link)[:60]!r} is neither text nor a whole number"
                )
    known = document.get("links")
    if known is not None and not (
        isinstance(known, list) and all(isinstance(link, (str, int)) for link in known)
    ):
        raise InputError(f"{where}: links is no list of names")
    try:
        named = [map(str, transfer) for transfer in document["transfers"]]  # 1 and "1" are one link
        return Traffic.from_transfers(named, link_names=None if known is None else map(str, known))
    except InputError as error:
        raise InputError(f"{where}: {error}") from None


@dataclass(frozen=True, kw_only=True)
class CarriedSchedule:
    """A schedule to be carried out: each transfer's ends and its links by name, and the time frames as indices of
    transfers."""

    pairs: tuple[tuple[str, str], ...]
    paths: tuple[tuple[str, ...], ...]
    frames: tuple[tuple[int, ...], ...]
    where: str

    @property
    def ends(self) -> list[tuple[str, str, int]]:
        """Of each transfer, with the number of the part: transfers of one pair are parts of its message."""
        seen: defaultdict[tuple[str, str], Iterator[int]] = defaultdict(count)
        return [(*pair, next(seen[pair])) for pair in self.pairs]

    def require_path(self, number: int, labels: Sequence[str]) -> None:
        """Raise InputError where the transfer's links are not those on which the network's routing sends that pair."""
        if tuple(labels) != self.paths[number]:
            source, sink = self.pairs[number]
            raise InputError(
                f"{self.where}: transfer {number} goes over {', '.join(self.paths[number])}; {source} to {sink} "
                f"goes over {', '.join(labels)} here: give the network and the --routing that it was scheduled for"
            )


def parse_carried(document: object, network: Network, where: str) -> CarriedSchedule:
    """What ``testbed schedule NETWORK --output`` wrote. InputError for what is no schedule without conflict of hosts of
    the network."""
    schedule = parse_frames(document, parse_traffic(document, where), where)
    assert isinstance(document, Mapping)
    pairs = []
    for number, links in enumerate(document["transfers"]):
        named = bool(links) and all("->" in str(link) for link in links)
        pair = (
            (read_link(str(links[0]), network)[0], read_link(str(links[-1]), network)[1])
            if named
            else ("", "")
        )
        if not named or pair[0] == pair[1]:
            raise InputError(
                f"{where}: transfer {number} "
                + (
                    f"goes from {pair[0]} back to {pair[0]}, over no other host"
                    if named
                    else "names no links as a->b"
                )
                + "; make it with testbed schedule NETWORK --pattern all-to-others (or a file of pairs) --output FILE"
            )
        pairs.append(pair)
    return CarriedSchedule(
        pairs=tuple(pairs),
        paths=tuple(tuple(map(str, links)) for links in document["transfers"]),
        frames=tuple(tuple(int(i) for i in frame) for frame in schedule.frames),
        where=where,
    )


def read_schedule(file: str, network: Network) -> CarriedSchedule:
    """The schedule of a ``--schedule FILE``, to be carried out over the network; InputError or TopologyError names what
    is wrong."""
    where = f"--schedule {file}"
    return parse_carried(
        read_json(file, where, hint="give what testbed schedule --output wrote"), network, where
    )


def parse_frames(document: object, traffic: Traffic, where: str) -> Schedule:
    """The checked schedule of a document's frames; InputError says which transfer is missing, doubled or in
    conflict."""
    frames = document.get("frames") if isinstance(document, Mapping) else None
    if not isinstance(frames, list) or not all(isinstance(frame, list) for frame in frames):
        raise InputError(f'{where}: give "frames": [[transfer, ...], ...]')
    try:
        check_frames(traffic, frames)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
    return Schedule.of_frames(frames, traffic.bottleneck_load, method="file")
