"""The grammar of faults: how commands, the prompt and files say which links fail, in which manner and when.

As text, for the prompt of ``testbed up`` and the options of commands::

    faults  = fault {"," fault} | "poisson:" setting {"," setting}
    fault   = what ["@" times] {" " manner}
    what    = link | cable | "random:" N | "transient:" N | "intermittent:" N | shape ":" N
    link    = a "->" b ["#" key]         from a to b; the key tells parallel links apart
    cable   = a "-" b                    both links between two switches
    shape   = "line" | "square" | "L" | "U"                   legs of N links, at a place drawn by the seed
    times   = [start] ["-" [stop]]       seconds; from the beginning and for ever, where left out
    manner  = "down" | "blackhole" | "loss" fraction | impairment {" " impairment}, each also with "one-way"
    impairment = "loss:" F | "ge:p=" P ",r=" R | "delay:" S ",jitter=" J | "jitter:" J | "reorder:" F | "duplicate:" F | "trace:" FILE
    setting = ("rate=" | "lasts=" | "start=" | "lengths=" | "kind=" | "loss=") value

``random:N`` are N cables drawn by the seed, ``transient:N`` as many that each fail once for a short while, ``intermittent:N`` as many that
fail ten times, for a tenth of the run altogether. No command has a use for everything: lists and patterns are the simulator's, ``poisson:`` is for streams, one link with its times for striped files,
one link with its manner for the prompt; what impairments are and which values they take says ``topologies.impairments``. A file says it as JSON: see ``parse_fault_document``. Whatever the form, what comes out
is a tuple of ``Fault`` (or, for ``poisson:``, the law from which they are drawn).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from testbed.errors import InputError
from testbed.faults.cable_faults import cable_fault, check_faults, intermittent_faults, random_faults
from testbed.faults.fault import Fault
from testbed.faults.schedules import PoissonFaults, flapping_faults, node_faults
from testbed.faults.shapes import SHAPES, shape_faults
from testbed.model.schemas import refuse_unknown
from topologies.errors import TopologyError
from topologies.impairments import impairment_text, parse_impairments
from topologies.network import LinkId, Network, label_of

TRANSIENT_SHARE = 0.1
"""Transient faults last up to this share of the run (Zarza 2011, 5.6.4)."""

_SETTINGS = {
    "rate": "rate_per_s",
    "lasts": "lasts_s",
    "start": "start_s",
    "lengths": "lengths",
    "kind": "kind",
    "loss": "loss_fraction",
}
_BETWEEN_FAULTS = re.compile(r",(?!\s*[0-9a-z-]+=)")
"""A comma, but for those between the values of an impairment."""
_NUMBERS = ("start_s", "stop_s", "loss_fraction", "period_s", "down_s")


def parse_link(text: Any, network: Network) -> LinkId:
    """``a->b``, ``a->b#key`` or ``a-b`` to a link of the network; InputError where there is none."""
    found = _named_link(text) if isinstance(text, str) else None
    if found is None or found not in network.link_index:
        raise InputError(
            f"link {text!r} is no link of {network.name!r}; write it a->b, as testbed topology show lists them"
        )
    return found


def parse_fault(text: str, network: Network) -> Fault:
    """One link of the network, with times and manner where they are given; InputError names what is wrong.

    >>> from topologies import load_network
    >>> fault = parse_fault("s1->s2@0.5-2 loss 0.3 one-way", load_network("swiss-t1"))
    >>> fault.link, fault.start_s, fault.stop_s, fault.kind, fault.loss_fraction, fault.direction
    (('s1', 's2', 0), 0.5, 2.0, 'loss', 0.3, 'forward')
    """
    name, _, rest = text.rpartition("@")
    times, *manner = rest.split() or [""]
    if not name or "->" in rest:  # no times
        (name, *manner), times = text.split() or [""], ""
    start, stop = _times(text, times)
    return Fault(link=parse_link(name, network), start_s=start, stop_s=stop, **_manner(text, manner))


def standing_fault(link: LinkId, manner: Sequence[str]) -> Fault:
    """A fault that stands on the link from now on, in the manner that the words say; InputError names the wrong one.

    >>> fault = standing_fault(("s1", "s2", 0), ["loss", "0.3", "one-way"])
    >>> fault.kind, fault.loss_fraction, fault.direction, fault.permanent
    ('loss', 0.3, 'forward', True)
    """
    return Fault(link=link, **_manner(" ".join((label_of(link), *manner)), list(manner)))


def parse_fault_list(text: str, network: Network) -> tuple[Fault, ...]:
    """``LINK@START-STOP [MANNER]`` one after another, with commas between, by start; each begins and ends within the run.

    Raises InputError that names the word.

    >>> from topologies import load_network
    >>> [(f.link[:2], f.stop_s) for f in parse_fault_list("s2->s3@5-9 one-way, s1->s2@1-3", load_network("swiss-t1"))]
    [(('s1', 's2'), 3.0), (('s2', 's3'), 9.0)]
    """
    found = []
    for word in _BETWEEN_FAULTS.split(text):
        fault = parse_fault(word.strip(), network)
        if fault.permanent:
            raise InputError(f"fault {word.strip()!r}: say when it ends, as in s1->s2@1-3")
        found.append(fault)
    return tuple(sorted(found, key=lambda fault: (fault.start_s, fault.link)))


def parse_cable_faults(text: str | None, network: Network, *, seed: int, duration_s: float) -> tuple[Fault, ...]:
    """A list of cables, of random ones and of shapes to faults of whole cables, by start; None and "" are no faults.

    ``seed`` draws what is left to chance; ``duration_s`` is the length of the run, within which transient faults come.
    Raises InputError that names the word, or the cable that is not there.
    """
    found: list[Fault] = []
    for place, word in enumerate(text.split(",") if text else ()):
        chance = [seed, 3] if place == 0 else [seed, 3, place]
        found += _cable_faults(word.strip(), network, chance, duration_s)
    return check_faults(network, found)


def parse_poisson(text: str) -> PoissonFaults:
    """``poisson:rate=0.01,lasts=1`` with the other settings; InputError names the wrong word."""
    values: dict[str, Any] = {}
    for word in text.partition(":")[2].split(","):
        name, _, value = word.partition("=")
        if name not in _SETTINGS:
            raise InputError(f"faults {text!r}: {word!r} is none of {', '.join(f'{key}=' for key in _SETTINGS)}")
        try:
            values[_SETTINGS[name]] = value if name in ("lengths", "kind") else float(value)
        except ValueError:
            raise InputError(f"faults {text!r}: {value!r} is no number") from None
    missing = [key for key in ("rate", "lasts") if _SETTINGS[key] not in values]
    if missing:
        raise InputError(f"faults {text!r}: {missing[0]}= is missing; write poisson:rate=0.01,lasts=1")
    return PoissonFaults(**values)


def parse_moment(text: str, where: str) -> tuple[str, float]:
    """``NODE@SECONDS`` to the node's name and the moment; InputError, which begins with ``where``, for anything else."""
    node, _, seconds = text.rpartition("@")
    try:
        at_s = float(seconds)
    except ValueError:
        at_s = math.nan
    if not node or not 0 <= at_s < math.inf:
        raise InputError(f"{where} {text!r}: give NODE@SECONDS, as in r5@2.5")
    return node, at_s


def parse_fault_document(document: Any, network: Network, where: str, folder: Path | None = None) -> tuple[Fault, ...]:
    """Faults from a JSON document, by start: a list, or {"faults": list}, of {"link": "a->b", "kind", "start_s", "stop_s", ...},
    {"node": "a", "start_s", "stop_s"} (all its cables) and {"flapping": "a->b", "period_s", "down_s", "start_s", "stop_s"}.

    They may overlap. A link may have "impairments" instead of a kind; the traces that those name are looked for in ``folder``.
    Raises InputError that names the entry and the key that is wrong.
    """
    refuse_unknown(document, "faults", where)
    entries = document.get("faults") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise InputError(f'{where}: give a list of faults, or {{"faults": [...]}}')
    faults: list[Fault] = []
    for number, entry in enumerate(entries):
        spot = f"{where}, fault {number}"
        if not isinstance(entry, dict):
            raise InputError(f"{spot}: not an object; give link, kind, start_s and stop_s")
        try:
            faults += _entry(entry, network, folder or Path())
        except InputError as error:
            raise InputError(f"{spot}: {error}") from None
    return tuple(sorted(faults, key=lambda f: (f.start_s, f.link)))


def _named_link(text: str) -> LinkId | None:
    """The link as it is written, whether or not there is one."""
    source, found, rest = text.partition("->" if "->" in text else "-")
    target, _, key = rest.partition("#")
    return (source.strip(), target.strip(), int(key) if key.isdecimal() else 0) if found else None


def _times(text: str, times: str) -> tuple[float, float]:
    start, _, stop = times.partition("-")
    try:
        return float(start or 0), float(stop) if stop else math.inf
    except ValueError:
        raise InputError(f"fault {text!r}: {times!r} is not START-STOP in seconds, as in 0.2-3") from None


def _manner(text: str, words: list[str]) -> dict[str, Any]:
    """The fields of ``Fault`` that the words after a link stand for."""
    rest = [word for word in words if word != "one-way"]
    if rest and ":" in rest[0]:
        return {**_impaired(text, " ".join(rest)), "direction": "forward" if "one-way" in words else "both"}
    kind, *number = rest or ["down"]
    if kind not in ("down", "blackhole", "loss") or len(number) != (kind == "loss"):
        raise InputError(
            f"fault {text!r}: write LINK, then down, blackhole or loss FRACTION, or impairments as ge:p=0.01,r=0.3"
        )
    try:
        fraction = float(number[0]) if number else 1.0
    except ValueError:
        raise InputError(f"fault {text!r}: loss {number[0]!r} is no number; give 0 to 1") from None
    return {"kind": kind, "loss_fraction": fraction, "direction": "forward" if "one-way" in words else "both"}


def _impaired(text: str, words: str, folder: str | Path = "") -> dict[str, Any]:
    """The fields of ``Fault`` that impairments stand for, their traces read."""
    try:
        return {"kind": "impaired", "impairments": impairment_text(parse_impairments(words, folder))}
    except TopologyError as error:
        raise InputError(f"fault {text!r}: {error}") from None


def _cable_faults(word: str, network: Network, chance: list[int], duration_s: float) -> tuple[Fault, ...]:
    what, _, times = word.partition("@")
    kind, colon, size = what.partition(":")
    shape = next((name for name in SHAPES if name.lower() == kind.lower()), None)
    patterned = colon and (shape is not None or kind in ("random", "transient", "intermittent"))
    timed = kind in ("transient", "intermittent")
    if patterned and (not size.isdecimal() or (timed and times)):
        raise InputError(f"faults {word!r}: give {kind}:N with a whole number N" + (", without times" if timed else ""))
    if patterned and kind == "intermittent":
        return intermittent_faults(network, int(size), seed=chance, duration_s=duration_s)
    if patterned and kind == "transient":
        lasting = (0.0, TRANSIENT_SHARE * duration_s)
        return random_faults(network, int(size), seed=chance, start_s=(0.0, duration_s), duration_s=lasting)
    start, stop = _times(word, times)
    if not patterned:
        link = _named_link(what)
        if link is None:
            raise InputError(
                f"faults {word!r}: give links as s0_0-s0_1 or s0_0-s0_1@0.1-0.2 (seconds), random:N, transient:N, intermittent:N, or a shape, "
                "as line:5, square:5, L:5, U:5"
            )
        return (cable_fault(link[:2], start_s=start, stop_s=stop),)
    drawn = (
        shape_faults(network, shape, size=int(size), seed=chance)
        if shape
        else random_faults(network, int(size), seed=chance)
    )
    return tuple(replace(fault, start_s=start, stop_s=stop) for fault in drawn)


def _entry(entry: dict[str, Any], network: Network, folder: Path) -> tuple[Fault, ...]:
    sort = next((name for name in ("node", "flapping") if name in entry), "link")
    needed = {sort, "start_s", "stop_s"} | ({"period_s", "down_s"} if sort == "flapping" else set())
    missing = sorted(needed - set(entry))
    if missing:
        raise InputError(f"{missing[0]} is missing")
    for key in _NUMBERS:
        value = entry.get(key, 1.0)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or value != value or abs(value) > 1e9:
            raise InputError(f"{key} {value!r} is not a number of use")
    values = {key: value for key, value in entry.items() if key != sort}
    if sort == "node":
        return node_faults(network, entry["node"], **values)
    link = parse_link(entry[sort], network)
    if sort == "link" and "impairments" in entry:
        if "kind" in entry or "loss_fraction" in entry:
            raise InputError("impairments say how the link fails: leave kind and loss_fraction out")
        values |= _impaired(str(entry["link"]), str(entry["impairments"]), folder)
    return flapping_faults(link, **values) if sort == "flapping" else (Fault(link=link, **values),)
