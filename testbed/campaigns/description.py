"""What a campaign is and how its file says it: a TOML or JSON document with a fixed set of keys, each one checked.

The file's lists are multiplied out; networks, seeds, frames and pairs make units (one route computation each method).
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from testbed.errors import InputError
from testbed.model.schemas import refuse_unknown
from topologies.text.json_types import JsonObject

MAX_ROWS = 50_000_000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """The mean ROR of ``method`` over that of ``against`` is at most ``at_most``, over the rows where both are
    finite."""

    method: str
    against: str
    at_most: float
    large_blocks: bool = False


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """All values multiplied out. ``networks`` may hold ``{seed}`` and ``{frame}``; ``pairs`` are end points, or numbers
    of pairs drawn at random by the seed; ``minimum_paths``: pairs with fewer edge-disjoint paths are not drawn.
    """

    name: str
    networks: tuple[str, ...]
    methods: tuple[str, ...]
    seeds: tuple[int, ...] = (1,)
    frames: tuple[int, ...] = (0,)
    pairs: tuple[tuple[str, str], ...] | int = 1
    minimum_paths: int = 2
    tolerances: tuple[float, ...] = (0.05,)
    m: tuple[int, ...] = (20,)
    der: tuple[float, ...] = (1e-5,)
    large_blocks: tuple[bool, ...] = (False,)
    claims: tuple[Claim, ...] = ()

    @property
    def rows_per_unit(self) -> int:
        return math.prod(map(len, (self.methods, self.tolerances, self.m, self.der, self.large_blocks)))


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One network and one pair of end points: what a worker computes in one go. ``pair`` None: the ``draw``-th random
    one."""

    index: int
    network: str
    seed: int
    frame: int
    pair: tuple[str, str] | None
    draw: int


def parse_campaign(document: object, where: str) -> Campaign:
    """The campaign a document describes; ``where`` names the file in errors.

    Raises InputError: not a table, a key that is unknown (names the nearest), missing, or of a wrong kind or range.
    """
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: give a table of keys, not {type(document).__name__}")
    refuse_unknown(document, "campaign", where)
    for key in ("name", "networks", "methods"):
        if key not in document:
            raise InputError(f"{where}: key {key!r} is missing")
    values: JsonObject = {key: _READ[key](document[key], f"{where}: {key}") for key in document}
    campaign = Campaign(**values)
    if not campaign.networks or not campaign.methods:
        raise InputError(f"{where}: networks and methods need at least one entry each")
    for claim in campaign.claims:
        for method in (claim.method, claim.against):
            if method not in campaign.methods:
                raise InputError(f"{where}: claims: method {method!r} is not among the campaign's methods")
        if claim.large_blocks not in campaign.large_blocks:
            raise InputError(f"{where}: claims: large_blocks = {claim.large_blocks} is not among the campaign's")
    if len(units(campaign)) * campaign.rows_per_unit > MAX_ROWS:
        raise InputError(f"{where}: more than {MAX_ROWS} rows; split the campaign")
    return campaign


def units(campaign: Campaign) -> tuple[Unit, ...]:
    """Every unit, in the order of the file; names without ``{seed}`` or ``{frame}`` are not repeated over them."""
    found: dict[tuple[str, int, int, tuple[str, str] | None, int], None] = {}
    pairs: Sequence[tuple[tuple[str, str] | None, int]]
    if isinstance(campaign.pairs, int):
        pairs = [(None, draw) for draw in range(campaign.pairs)]
    else:
        pairs = [(pair, 0) for pair in campaign.pairs]
    for network, seed, frame, (pair, draw) in itertools.product(
        campaign.networks, campaign.seeds, campaign.frames, pairs
    ):
        used_frame = frame if "{frame}" in network else 0
        used_seed = seed if "{seed}" in network or pair is None else 0
        name = network.replace("{seed}", str(seed)).replace("{frame}", str(frame))
        found[(name, used_seed, used_frame, pair, draw)] = None
    return tuple(
        Unit(index=i, network=name, seed=seed, frame=frame, pair=pair, draw=draw)
        for i, (name, seed, frame, pair, draw) in enumerate(found)
    )


def _text(value: object, where: str) -> str:
    if not isinstance(value, str) or not value:
        raise InputError(f"{where}: give text, not {value!r}")
    return value


def _name(value: object, where: str) -> str:
    name = _text(value, where)
    if not all(c.isalnum() or c in "._-" for c in name) or not name[0].isalnum() or len(name) > 80:
        raise InputError(
            f"{where}: {name!r} is not usable as a directory; use letters, digits, dots, dashes, underscores"
        )
    return name


def _list(value: object, where: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise InputError(f"{where}: give a list with at least one entry, not {value!r}")
    return value


def _texts(value: object, where: str) -> tuple[str, ...]:
    return tuple(_text(entry, where) for entry in _list([value] if isinstance(value, str) else value, where))


def _count(value: object, where: str, least: int = 1) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise InputError(f"{where}: {value!r} is no whole number of at least {least}")
    return value


def _whole(least: int) -> Callable[[object, str], tuple[int, ...]]:
    def read(value: object, where: str) -> tuple[int, ...]:
        entries = [value] if isinstance(value, (int, str)) else _list(value, where)
        found = [one for entry in entries for one in (_range(entry, where) if isinstance(entry, str) else [entry])]
        return tuple(_count(entry, where, least) for entry in found)

    return read


def _range(text: str, where: str) -> range:
    ends = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
    if ends is None or int(ends[1]) > int(ends[2]):
        raise InputError(f'{where}: {text!r} is no range such as "0-35"')
    if int(ends[2]) - int(ends[1]) >= 1_000_000:
        raise InputError(f"{where}: {text!r} is too long a range")
    return range(int(ends[1]), int(ends[2]) + 1)


def _fractions(*, from_zero: bool) -> Callable[[object, str], tuple[float, ...]]:
    def read(value: object, where: str) -> tuple[float, ...]:
        entries = [value] if isinstance(value, (int, float)) else _list(value, where)
        for entry in entries:
            good = isinstance(entry, (int, float)) and not isinstance(entry, bool) and 0 <= entry < 1
            if not good or (entry == 0 and not from_zero):
                raise InputError(f"{where}: {entry!r} is outside {'[' if from_zero else '('}0, 1)")
        return tuple(float(entry) for entry in entries)

    return read


def _booleans(value: object, where: str) -> tuple[bool, ...]:
    entries = [value] if isinstance(value, bool) else _list(value, where)
    if not all(isinstance(entry, bool) for entry in entries):
        raise InputError(f"{where}: give true, false or both in a list")
    return tuple(entries)


def _pairs(value: object, where: str) -> tuple[tuple[str, str], ...] | int:
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 1:
            raise InputError(f"{where}: {value} is below 1")
        return value
    entries = _list(value, where)
    for entry in entries:
        if not isinstance(entry, list) or len(entry) != 2 or not all(isinstance(end, str) for end in entry):
            raise InputError(f'{where}: {entry!r} is no pair such as ["s1", "s6"]')
        if entry[0] == entry[1]:
            raise InputError(f"{where}: source and sink are both {entry[0]!r}")
    return tuple((a, b) for a, b in entries)


def _claims(value: object, where: str) -> tuple[Claim, ...]:
    found = []
    for entry in _list(value, where):
        if not isinstance(entry, Mapping):
            raise InputError(f"{where}: {entry!r} is no table")
        try:
            at_most = float(entry["at_most"])
            claim = Claim(
                method=_text(entry["method"], where),
                against=_text(entry["against"], where),
                at_most=at_most,
                large_blocks=bool(entry.get("large_blocks", False)),
            )
        except KeyError as missing:
            raise InputError(f"{where}: key {missing} is missing") from None
        except (TypeError, ValueError):
            raise InputError(f"{where}: at_most = {entry['at_most']!r} is no number") from None
        found.append(claim)
    return tuple(found)


_READ: Mapping[str, Callable[[object, str], object]] = {
    "name": _name,
    "networks": _texts,
    "methods": _texts,
    "seeds": _whole(0),
    "frames": _whole(0),
    "pairs": _pairs,
    "minimum_paths": _count,
    "tolerances": _fractions(from_zero=True),
    "m": _whole(1),
    "der": _fractions(from_zero=False),
    "large_blocks": _booleans,
    "claims": _claims,
}
