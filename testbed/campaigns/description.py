"""The description of a campaign in a TOML or JSON file with a fixed set of keys.

A campaign consists of all combinations of the values in its lists. A unit is one network with one
pair of end points. For each method, a unit computes one route.
"""

import itertools
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from testbed.errors import InputError
from testbed.model.json_values import from_json
from testbed.model.schemas import refuse_unknown
from topologies import JsonObject

# Largest number of rows of a campaign.
MAX_ROWS = 50_000_000
# Largest number of values of a range such as "0-35".
_MAX_RANGE = 1_000_000


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim about the mean ROR of two methods, over the rows in which both RORs are finite.

    ROR is the redundancy overall requirement of a route (``fec.redundancy.ror``).

    Attributes:
        method: Name of the method.
        against: Name of the method with which it is compared.
        at_most: The largest claimed ratio of their mean RORs.
        large_blocks: Whether the claim is about the ROR for large blocks.
    """

    method: str
    against: str
    at_most: float
    large_blocks: bool = False


@dataclass(frozen=True, kw_only=True)
class Campaign:
    """The description of a campaign.

    Attributes:
        name: Name of the campaign.
        networks: Names or files of the networks. ``{seed}`` and ``{frame}`` are replaced by each
            of the seeds and frames.
        methods: Names of the routing methods.
        seeds: The seeds.
        frames: Numbers of the frames (moments) of networks that change over time.
        pairs: The end points, or the number of random pairs for each network and seed.
        minimum_paths: Minimum number of edge-disjoint paths between the nodes of a random pair.
        tolerances: Fractions of lost packets that a block tolerates.
        m: Numbers of source packets per block.
        der: Decoding error rates: the accepted probabilities that a block cannot be decoded.
        large_blocks: Whether ROR is computed by the equation for large blocks (Gabrielyan 2007,
            eq. 29). Both values are possible: then each row is computed by both equations.
        claims: The claims that are judged.
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
        """Number of rows that each unit computes."""
        lists = (self.methods, self.tolerances, self.m, self.der, self.large_blocks)
        return math.prod(map(len, lists))


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A network with a pair of end points, which one worker computes.

    Attributes:
        index: Number of the unit in the campaign.
        network: Name or file of the network.
        seed: Seed of the random pair.
        frame: Number of the frame (moment) of a network that changes over time.
        pair: The end points. None: a random pair.
        draw: Number of the random pair in the sequence of the seed.
    """

    index: int
    network: str
    seed: int
    frame: int
    pair: tuple[str, str] | None
    draw: int


def parse_campaign(document: object, where: str) -> Campaign:
    """Return the campaign that a document describes.

    Args:
        document: The content of a TOML or JSON file, or the keys that a program gives.
        where: Name of the document, with which messages of errors begin.

    Raises:
        InputError: The document is not a table, a key is unknown or missing, a value is not
            accepted, or the campaign has too many rows.
    """
    if not isinstance(document, Mapping):
        raise InputError(f"{where}: give a table of keys, not {type(document).__name__}")
    refuse_unknown(document, "campaign", where)
    for key in ("name", "networks", "methods"):
        if key not in document:
            raise InputError(f"{where}: key {key!r} is missing")
    values: JsonObject = {}
    for key, value in document.items():
        values[key] = _read(key, value, f"{where}: {key}")
    campaign = Campaign(**values)
    if not campaign.networks or not campaign.methods:
        raise InputError(f"{where}: networks and methods need at least one entry each")
    _check_claims(campaign, where)
    pairs = campaign.pairs if isinstance(campaign.pairs, int) else len(campaign.pairs)
    lists = (campaign.networks, campaign.seeds, campaign.frames)
    if pairs * math.prod(map(len, lists)) * campaign.rows_per_unit > MAX_ROWS:
        raise InputError(f"{where}: more than {MAX_ROWS} rows; split the campaign")
    return campaign


def _check_claims(campaign: Campaign, where: str) -> None:
    """Raise InputError if a claim is about a method or an equation that the campaign lacks."""
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


def units(campaign: Campaign) -> tuple[Unit, ...]:
    """Return the units of a campaign in the order of its lists.

    A network whose name does not contain ``{seed}`` or ``{frame}`` is not repeated for each of
    them.
    """
    # A dictionary keeps the order and removes duplicates.
    keys: dict[tuple[str, int, int, tuple[str, str] | None, int], None] = {}
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
        keys[(name, used_seed, used_frame, pair, draw)] = None
    all_units = []
    for i, (name, seed, frame, pair, draw) in enumerate(keys):
        unit = Unit(index=i, network=name, seed=seed, frame=frame, pair=pair, draw=draw)
        all_units.append(unit)
    return tuple(all_units)


def _read(key: str, value: object, where: str) -> Any:
    """Check the value of a key, and convert it to the value of the field of ``Campaign``.

    Instead of a list, a single entry may be given. In lists of integers, "0-35" stands for all
    numbers of the range.
    """
    if key == "claims" and _is_list(value):
        return tuple(from_json(Claim, entry, where) for entry in value)
    if key in _SINGLE_VALUES:
        _check_entry(value, _SINGLE_VALUES[key], where)
        return value
    if key == "pairs" and isinstance(value, int):
        _check_entry(value, _POSITIVE, where)
        return value
    entries: Sequence[Any] = value if _is_list(value) else [value]
    if not entries:
        raise InputError(f"{where}: give a list with at least one entry, not {value!r}")
    kind = _ENTRIES[key]
    if kind in (_NOT_NEGATIVE, _POSITIVE):
        entries = _expand_ranges(entries, where)
    for entry in entries:
        _check_entry(entry, kind, where)
    if key == "pairs":
        entries = list(map(tuple, entries))
    return tuple(dict.fromkeys(entries))


def _check_entry(entry: object, kind: "_Kind", where: str) -> None:
    is_valid, problem = kind
    if not is_valid(entry):
        raise InputError(f"{where}: {entry!r} {problem}")


def _expand_ranges(entries: Sequence[object], where: str) -> list[object]:
    numbers: list[object] = []
    for entry in entries:
        if isinstance(entry, str):
            numbers += _range(entry, where)
        else:
            numbers.append(entry)
    return numbers


def _range(text: str, where: str) -> range:
    ends = re.fullmatch(r"([0-9]+)-([0-9]+)", text)
    if ends is None or int(ends[1]) > int(ends[2]):
        raise InputError(f'{where}: {text!r} is no range such as "0-35"')
    if int(ends[2]) - int(ends[1]) >= _MAX_RANGE:
        raise InputError(f"{where}: {text!r} is too long a range")
    return range(int(ends[1]), int(ends[2]) + 1)


def _is_list(value: object) -> TypeGuard[Sequence[Any]]:
    """Return whether the value is a sequence of entries; a text is a single entry."""
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes))


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and value != ""


def _is_directory_name(value: Any) -> bool:
    return isinstance(value, str) and re.fullmatch(r"[^\W_][\w.-]{0,79}", value) is not None


def _is_not_negative(value: Any) -> bool:
    return _is_integer(value) and bool(value >= 0)


def _is_positive(value: Any) -> bool:
    return _is_integer(value) and bool(value >= 1)


def _is_pair(value: Any) -> bool:
    is_list_of_texts = _is_list(value) and list(map(type, value)) == [str, str]
    return is_list_of_texts and value[0] != value[1]


def _is_tolerance(value: Any) -> bool:
    return _is_number(value) and bool(0 <= value < 1)


def _is_probability(value: Any) -> bool:
    return _is_number(value) and bool(0 < value < 1)


def _is_truth_value(value: Any) -> bool:
    return isinstance(value, bool)


def _is_never_valid(_: Any) -> bool:
    return False


# A predicate for valid values, and what a message says about others.
_Kind = tuple[Callable[[Any], bool], str]
_TEXT: _Kind = (_is_text, "is no text; give a list of texts")
_NOT_NEGATIVE: _Kind = (_is_not_negative, "is no whole number of at least 0")
_POSITIVE: _Kind = (_is_positive, "is no whole number of at least 1")

# Keys with a single value.
_SINGLE_VALUES: Mapping[str, _Kind] = {
    "name": (
        _is_directory_name,
        "is not usable as a directory; use letters, digits, dots, dashes, underscores",
    ),
    "minimum_paths": _POSITIVE,
}
# Keys with a list, and the kind of its entries.
_ENTRIES: Mapping[str, _Kind] = {
    "networks": _TEXT,
    "methods": _TEXT,
    "seeds": _NOT_NEGATIVE,
    "frames": _NOT_NEGATIVE,
    "pairs": (_is_pair, 'is no pair of two nodes such as ["s1", "s6"]'),
    "tolerances": (_is_tolerance, "is outside [0, 1)"),
    "m": _POSITIVE,
    "der": (_is_probability, "is outside (0, 1)"),
    "large_blocks": (_is_truth_value, "is neither; give true, false or both in a list"),
    # A list of claims is read before.
    "claims": (_is_never_valid, "is no list of tables"),
}
