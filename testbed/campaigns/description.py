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
from testbed.model.json_values import from_json
from testbed.model.schemas import refuse_unknown
from topologies import JsonObject

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
        return math.prod(
            map(len, (self.methods, self.tolerances, self.m, self.der, self.large_blocks))
        )


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
    values: JsonObject = {
        key: _read(key, value, f"{where}: {key}") for key, value in document.items()
    }
    campaign = Campaign(**values)
    if not campaign.networks or not campaign.methods:
        raise InputError(f"{where}: networks and methods need at least one entry each")
    for claim in campaign.claims:
        for method in (claim.method, claim.against):
            if method not in campaign.methods:
                raise InputError(
                    f"{where}: claims: method {method!r} is not among the campaign's methods"
                )
        if claim.large_blocks not in campaign.large_blocks:
            raise InputError(
                f"{where}: claims: large_blocks = {claim.large_blocks} is not among the campaign's"
            )
    pairs = campaign.pairs if isinstance(campaign.pairs, int) else len(campaign.pairs)
    listed = (campaign.networks, campaign.seeds, campaign.frames)
    if pairs * math.prod(map(len, listed)) * campaign.rows_per_unit > MAX_ROWS:
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


def _read(key: str, value: object, where: str) -> Any:
    """The value of one key: of lists, for which a single entry may stand, each entry is one of its kind; "0-35" stands
    for its numbers."""
    if key == "claims" and isinstance(value, list):
        return tuple(from_json(Claim, entry, where) for entry in value)
    single = key in _SINGLE or (key == "pairs" and isinstance(value, int))
    entries = value if isinstance(value, list) and not single else [value]
    if not entries:
        raise InputError(f"{where}: give a list with at least one entry, not {value!r}")
    fits, wrong = _SINGLE.get(key, _WHOLE) if single else _ENTRIES[key]
    if _ENTRIES.get(key) in (_COUNT, _WHOLE):
        entries = [
            one
            for entry in entries
            for one in (_range(entry, where) if isinstance(entry, str) else [entry])
        ]
    for entry in entries:
        if not fits(entry):
            raise InputError(f"{where}: {entry!r} {wrong}")
    found = tuple(
        dict.fromkeys(tuple(entry) if isinstance(entry, list) else entry for entry in entries)
    )
    return found[0] if single else found


def _range(text: str, where: str) -> range:
    ends = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
    if ends is None or int(ends[1]) > int(ends[2]):
        raise InputError(f'{where}: {text!r} is no range such as "0-35"')
    if int(ends[2]) - int(ends[1]) >= 1_000_000:
        raise InputError(f"{where}: {text!r} is too long a range")
    return range(int(ends[1]), int(ends[2]) + 1)


def _is_number(value: object, kinds: type | tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


_Kind = tuple[Callable[[Any], bool], str]
"""Which values there may be, and what is said of another."""
_TEXT: _Kind = (
    lambda value: isinstance(value, str) and value != "",
    "is no text; give a list of texts",
)
_COUNT: _Kind = (
    lambda value: _is_number(value, int) and value >= 0,
    "is no whole number of at least 0",
)
_WHOLE: _Kind = (
    lambda value: _is_number(value, int) and value >= 1,
    "is no whole number of at least 1",
)
_SINGLE: Mapping[str, _Kind] = {
    "name": (
        lambda value: (
            isinstance(value, str) and re.fullmatch(r"[^\W_][\w.-]{0,79}", value) is not None
        ),
        "is not usable as a directory; use letters, digits, dots, dashes, underscores",
    ),
    "minimum_paths": _WHOLE,
}
_ENTRIES: Mapping[str, _Kind] = {
    "networks": _TEXT,
    "methods": _TEXT,
    "seeds": _COUNT,
    "frames": _COUNT,
    "pairs": (
        lambda value: (
            isinstance(value, list)
            and list(map(type, value)) == [str, str]
            and value[0] != value[1]
        ),
        'is no pair of two nodes such as ["s1", "s6"]',
    ),
    "tolerances": (lambda value: _is_number(value) and 0 <= value < 1, "is outside [0, 1)"),
    "m": _WHOLE,
    "der": (lambda value: _is_number(value) and 0 < value < 1, "is outside (0, 1)"),
    "large_blocks": (
        lambda value: isinstance(value, bool),
        "is neither; give true, false or both in a list",
    ),
    "claims": (lambda value: False, "is no list of tables"),
}
"""Keys of one value, and what the entries of the others are."""
