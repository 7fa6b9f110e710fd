"""The grammar of faults: how commands, the prompt and files say which links fail, in which manner and when.

As text, for the prompt of ``testbed up`` and the options of commands::

    faults  = fault {"," fault} | "poisson:" setting {"," setting}
    fault   = what ["@" times] {" " manner}
    what    = link | cable | "random:" N | "transient:" N | "intermittent:" N | shape ":" N
    link    = a "->" b ["#" key]         from a to b; the key tells parallel links apart (``model.naming.names``)
    cable   = a "-" b                    both links between two switches
    shape   = "line" | "square" | "L" | "U"                   legs of N links, at a place drawn by the seed
    times   = [start] ["-" [stop]]       seconds, or with a unit (200ms); from the beginning and permanently, where left out (lists want a "-")
    manner  = "down" | "blackhole" | "loss" fraction | impairment {" " impairment}, each also with "one-way"
    impairment = "loss:" F | "ge:p=" P ",r=" R | "delay:" S ",jitter=" J | "jitter:" J | "reorder:" F
               | "duplicate:" F | "trace:" FILE
    setting = ("rate=" | "lasts=" | "start=" | "lengths=" | "kind=" | "loss=") value

``random:N`` are N cables drawn by the seed, ``transient:N`` as many that each fail once for a short while,
``intermittent:N`` as many that fail ten times, for a tenth of the run altogether. No command has a use for everything:
lists and patterns are the simulator's, ``poisson:`` is for streams, one link with its times for striped files, one link
with its manner for the prompt; what impairments are and which values they take says ``topologies.impairments``. A file
says it as JSON: see ``parse_fault_document``. What comes out is a tuple of ``Fault`` (for ``poisson:``, their law).
"""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

from testbed.errors import InputError
from testbed.faults import cable_faults
from testbed.faults.fault import Fault, PoissonFaults, flapping_faults, node_faults
from testbed.model.json_values import located
from testbed.model.naming import names
from testbed.model.options import kinds
from testbed.model.options.quantities import plain_numbers
from testbed.model.schemas import refuse_unknown
from topologies import JsonObject, LinkId, Network, label_of
from topologies.impairments import impairment_text, parse_impairments
from topologies.network import quoted
from topologies.text.units import fraction, is_bare, seconds

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
_BETWEEN_VALUES = re.compile(r",\s*[0-9a-z-]+=")
_BETWEEN_FAULTS = re.compile(r",(?!\s*[0-9a-z-]+=)")
"""A comma, but for those between the values of an impairment."""
_SECONDS = r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?(?:ns|us|µs|ms|s|min|h)?|nan|inf)"
_TIMES = re.compile(rf"({_SECONDS})?(?:-({_SECONDS})?)?", re.IGNORECASE)
_REST = re.compile(r"\s*(?:@\s*(?P<times>\S*))?(?P<manner>(?:\s.*)?)", re.DOTALL)
_FOR_GOOD = re.compile(r"\s*@\s*\S*-(?:\s|$)")
_MANNER_WORDS = re.compile(r"\s+(?:down|blackhole|loss|one-way|[a-z]+:).*", re.DOTALL)
_PATTERN = re.compile(r"\s*(?P<kind>[A-Za-z]+):(?P<size>[^\s,@]*)(?:@(?P<times>[^\s,]*))?")
_AT_TIMES = re.compile(r"(?:\s*@\s*(?P<times>[^\s,]*))?")
_SHAPE_OF = {name.lower(): name for name in cable_faults.SHAPES}
_NUMBERS = ("start_s", "stop_s", "loss_fraction", "period_s", "down_s")


def no_faults(text: str) -> bool:
    """Whether the text asks for no faults: ``none``, or an empty JSON list."""
    return text.strip() == "none" or text.split() in (["[]"], ["[", "]"])


def parse_link(text: object, network: Network) -> LinkId:
    """``a->b``, ``a->b#key`` or ``a-b`` to a link of the network; InputError where there is none."""
    if not isinstance(text, str):
        raise InputError(f"link {text!r} is no link of {network.name!r}; write it a->b")
    return names.read_link(text, network)


def parse_fault(text: str, network: Network) -> Fault:
    """One link of the network, with times and manner where they are given; InputError names what is wrong.

    >>> from topologies import load_network
    >>> fault = parse_fault("s1->s2@0.5-2 loss 0.3 one-way", load_network("swiss-t1"))
    >>> fault.link, fault.start_s, fault.stop_s, fault.kind, fault.loss_fraction, fault.direction
    (('s1', 's2', 0), 0.5, 2.0, 'loss', 0.3, 'forward')
    """
    readings = list(dict.fromkeys(fault for fault, _ in _faults_at(text, 0, [len(text)], network)))
    return names.one_of(readings, f"fault {text!r}", fault_text, lambda: _no_fault(text, network))


def fault_text(fault: Fault) -> str:
    """The fault in the form that has one reading in every network; for a person, ``describe``.

    >>> fault_text(Fault(link=("s1", "s2", 0), start_s=1, kind="loss", loss_fraction=0.5))
    '"s1"->"s2"@1- loss 0.5'
    """
    times = f"@{fault.start_s!r}-" + ("" if fault.permanent else repr(fault.stop_s))
    return f"{names.link_text(fault.link)}{times if times != '@0.0-' else ''} {manner_text(fault)}"


def manner_text(fault: Fault) -> str:
    """How the link fails, as it is written behind a link: ``down``, ``loss 0.3 one-way``, ``ge:p=0.01,r=0.3``."""
    manner = fault.impairments or fault.kind + (
        f" {fault.loss_fraction!r}" if fault.kind == "loss" else ""
    )
    return manner + (" one-way" if fault.direction == "forward" else "")


def standing_fault(link: LinkId, manner: Sequence[str]) -> Fault:
    """A active fault on the link from now on, in the manner that the words say; InputError names the wrong one.

    >>> fault = standing_fault(("s1", "s2", 0), ["loss", "0.3", "one-way"])
    >>> fault.kind, fault.loss_fraction, fault.direction, fault.permanent
    ('loss', 0.3, 'forward', True)
    """
    return Fault(link=link, **_manner(" ".join((label_of(link), *manner)), list(manner)))


def parse_fault_list(text: str, network: Network) -> tuple[Fault, ...]:
    """``LINK@START-STOP [MANNER]`` one after another, with commas between, by start; ``LINK@START-`` fails for good.

    Raises InputError that names the word.

    >>> from topologies import load_network
    >>> [(f.link[:2], f.stop_s) for f in parse_fault_list("s2->s3@5-9 one-way, s1->s2@1-3", load_network("swiss-t1"))]
    [(('s1', 's2'), 3.0), (('s2', 's3'), 9.0)]
    """
    commas = [match.start() for match in re.finditer(",", text)]

    def items(at: int) -> names.Found[Fault]:
        return _faults_at(
            text, at, [*(comma for comma in commas if comma >= at), len(text)], network, timed=True
        )

    def why_none() -> str:
        for word in map(str.strip, _BETWEEN_FAULTS.split(text)):
            if parse_fault(word, network).permanent:
                return f"fault {word!r}: missing end time; expected LINK@START-STOP, or LINK@START- for good"
        return f"faults {text!r}: {network.name!r} has no such links; write names with a comma in double quotes"

    found = names.one_list_of(names.lists_of(text, items), f"faults {text!r}", fault_text, why_none)
    return tuple(sorted(found, key=lambda fault: (fault.start_s, fault.link)))


def parse_cable_faults(
    text: str | None, network: Network, *, seed: int, duration_s: float
) -> tuple[Fault, ...]:
    """A list of cables, of random ones and of shapes to faults of whole cables, by start; None and "" are no faults.

    ``seed`` draws what is left to chance; ``duration_s`` is the length of the run, within which transient faults come.
    Raises InputError that names the word, or the cable that is not there.
    """
    if not text:
        return ()

    def why_none() -> str:
        words = (
            word
            for word in text.split(",")
            if not names.lists_of(word, partial(_cables_at, word, network))
        )
        return _no_cable(next(words, text).strip(), network)

    readings = names.lists_of(text, lambda at: _cables_at(text, network, at))
    found: list[Fault] = []
    for place, (what, times) in enumerate(
        names.one_list_of(readings, f"faults {text!r}", _cable_text, why_none)
    ):
        start, stop = _times(text, times)
        if isinstance(what, tuple):
            found.append(cable_faults.cable_fault(what, start_s=start, stop_s=stop))
            continue
        chance = [seed, 3] if place == 0 else [seed, 3, place]
        found += _drawn_faults(what, times, network, chance, duration_s)
    return cable_faults.check_faults(network, found)


def parse_poisson(text: str) -> PoissonFaults:
    """``poisson:rate=0.01,lasts=1`` with the other settings; InputError names the wrong word."""
    values: JsonObject = {}
    for word in text.partition(":")[2].split(","):
        name, _, value = word.partition("=")
        if name not in _SETTINGS:
            raise InputError(
                f"faults {text!r}: {word!r} is none of {', '.join(f'{key}=' for key in _SETTINGS)}"
            )
        values[_SETTINGS[name]] = _setting(text, name, value)
    missing = [key for key in ("rate", "lasts") if _SETTINGS[key] not in values]
    if missing:
        raise InputError(
            f"faults {text!r}: {missing[0]}= is missing; write poisson:rate=0.01,lasts=1"
        )
    return PoissonFaults(**values)


def _setting(text: str, name: str, value: str) -> str | float:
    """Parse the value of one setting of ``poisson:``."""
    if name in ("lengths", "kind"):
        return value
    if name == "loss":
        number = fraction(value)
    elif name == "rate":
        number = float(value) if is_bare(value) else math.nan
    else:
        number = seconds(value)
    if not math.isfinite(number):
        raise InputError(f"faults {text!r}: {value!r} is no number")
    return number


def parse_node_time(text: str, where: str, network: Network) -> tuple[str, float]:
    """``NODE@TIME`` to the node and the moment; InputError, which begins with ``where``, for another form.

    A name that is no node's is given back as it is: an alias, or refused by whoever plans.
    """
    node, _, seconds = text.rpartition("@")
    at_s = math.nan
    with suppress(InputError):
        at_s = kinds.moment(seconds)
    if not node or math.isnan(at_s):
        raise InputError(f"{where} {text!r}: give NODE@TIME, as in r5@2.5 or r5@250ms")
    named = node in network.node_index or names.whole(node, names.nodes_at(node, 0, network))
    return names.read_node(node, network) if named else node.strip(), at_s


def parse_fault_document(
    document: object, network: Network, where: str, folder: Path | None = None
) -> tuple[Fault, ...]:
    """Faults from a JSON document, by start: a list, or {"faults": list}, of {"link": "a->b", "kind", "start_s",
    "stop_s", ...}, {"node": "a", "start_s", "stop_s"} (all its cables) and {"flapping": "a->b", "period_s", "down_s",
    "start_s", "stop_s"}. A "stop_s" of null: for good, but for what flaps.

    They may overlap. A link may have "impairments" instead of a kind; the traces that those name are looked for in
    ``folder``. Raises InputError that names the entry and the key that is wrong.
    """
    refuse_unknown(document, "faults", where)
    document = plain_numbers(document)
    entries = document.get("faults") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise InputError(f'{where}: give a list of faults, or {{"faults": [...]}}')
    faults: list[Fault] = []
    for number, entry in enumerate(entries):
        spot = f"{where}, fault {number}"
        if not isinstance(entry, dict):
            raise InputError(f"{spot}: not an object; give link, kind, start_s and stop_s")
        with located(spot):
            faults += _entry(entry, network, folder or Path())
    return tuple(sorted(faults, key=lambda f: (f.start_s, f.link)))


def _faults_at(
    text: str, at: int, stops: Sequence[int], network: Network, *, timed: bool = False
) -> names.Found[Fault]:
    """Every fault at the place that ends at one of ``stops``; ``timed``: those that say when, or by a dash never."""
    for link, end in names.links_at(text, at, network):
        if link in network.link_index:
            for stop in _stops(text, end, stops):
                with suppress(InputError):
                    fault = _fault(link, text[at:stop], text[end:stop])
                    if not timed or not fault.permanent or _FOR_GOOD.match(text[end:stop]):
                        yield fault, stop


def _stops(text: str, end: int, stops: Sequence[int]) -> Iterator[int]:
    """Where what is said about a link may end: at commas between an impairment's values, at the first other comma."""
    for stop in stops:
        if stop >= end:
            yield stop
            if not _BETWEEN_VALUES.match(text, stop):
                return


def _fault(link: LinkId, text: str, rest: str) -> Fault:
    """The fault of a link, with the times and the manner behind it."""
    said = _REST.fullmatch(rest)
    if said is None:
        raise InputError(f"fault {text.strip()!r}: {rest!r} is neither @START-STOP nor a manner")
    start, stop = _times(text.strip(), said["times"] or "")
    return Fault(
        link=link,
        start_s=start,
        stop_s=stop,
        **_manner(text.strip(), (said["manner"] or "").split()),
    )


def _no_fault(text: str, network: Network) -> str:
    """Why a text is no fault: what is wrong behind its link or, where no link stands at its beginning, with that."""
    behind = {
        link: end for link, end in names.links_at(text, 0, network) if link in network.link_index
    }
    for link, end in sorted(behind.items(), key=lambda one: -one[1]):
        if _REST.fullmatch(text[end:]):
            try:
                return str(_fault(link, text, text[end:]))
            except InputError as error:
                return str(error)
    name, _, rest = text.rpartition("@")
    return names.no_link(
        name if name and "->" not in rest else _MANNER_WORDS.sub("", text), network
    )


def _times(text: str, times: str) -> tuple[float, float]:
    said = _TIMES.fullmatch(times)
    if said is None:
        raise InputError(f"fault {text!r}: {times!r} is not START-STOP in seconds, as in 0.2-3")
    start_s = _moment(said[1]) if said[1] else 0.0
    stop_s = _moment(said[2]) if said[2] else math.inf
    return start_s, stop_s


def _moment(text: str) -> float:
    """Return the seconds of a text that the pattern of times accepts."""
    return float(text) if text.lower() in ("nan", "inf") else seconds(text)


def _manner(text: str, words: list[str]) -> JsonObject:
    """The fields of ``Fault`` that the words after a link stand for."""
    rest = [word for word in words if word != "one-way"]
    if rest and ":" in rest[0]:
        return {
            **_impaired(text, " ".join(rest)),
            "direction": "forward" if "one-way" in words else "both",
        }
    kind, *number = rest or ["down"]
    if kind not in ("down", "blackhole", "loss") or len(number) != (kind == "loss"):
        raise InputError(
            f"fault {text!r}: write LINK, then down, blackhole or loss FRACTION, or impairments as ge:p=0.01,r=0.3"
        )
    loss_fraction = fraction(number[0]) if number else 1.0
    if math.isnan(loss_fraction):
        raise InputError(
            f"fault {text!r}: loss {number[0]!r} is no number; give 0 to 1, or per cent as 30%"
        )
    return {
        "kind": kind,
        "loss_fraction": loss_fraction,
        "direction": "forward" if "one-way" in words else "both",
    }


def _impaired(text: str, words: str, folder: str | Path = "") -> JsonObject:
    """The fields of ``Fault`` that impairments stand for, their traces read."""
    with located(f"fault {text!r}"):
        return {
            "kind": "impaired",
            "impairments": impairment_text(parse_impairments(words, folder)),
        }


Cables = tuple[str | tuple[str, str], str]
"""What fails, a cable or a pattern such as ``random:5``, and the times that stand behind it."""


def _cables_at(text: str, network: Network, at: int) -> names.Found[Cables]:
    """Every pattern and cable that stands at the place; cables that there are before those that there are not."""
    pattern = _PATTERN.match(text, at)
    if pattern and (
        pattern["kind"].lower() in _SHAPE_OF
        or pattern["kind"] in ("random", "transient", "intermittent")
    ):
        yield (f"{pattern['kind']}:{pattern['size']}", pattern["times"] or ""), pattern.end()
    ends = [(link[:2], end) for link, end in names.links_at(text, at, network)]
    joined = [(pair, end) for pair, end in ends if _joined(pair, network)]
    for pair, end in joined or ends:
        times = _AT_TIMES.match(text, end)
        if times:
            yield (pair, times["times"] or ""), times.end()


def _joined(ends: tuple[str, str], network: Network) -> bool:
    return any(network.links[i].target == ends[1] for i in network.out_links(ends[0]))


def _cable_text(cables: Cables) -> str:
    what, times = cables
    named = what if isinstance(what, str) else "-".join(map(quoted, what))
    return named + (f"@{times}" if times else "")


def _no_cable(word: str, network: Network) -> str:
    ends = re.sub("@[^@]*$", "", word).split("->" if "->" in word else "-")
    unknown = [end.strip() for end in ends if not names.whole(end, names.nodes_at(end, 0, network))]
    if len(ends) == 2 and unknown:
        return f"fault on {word}: {names.no_node(unknown[0], network)}"
    return (
        f"faults {word!r}: give links as s0_0->s0_1 or s0_0->s0_1@0.1-0.2 (seconds), a JSON file, random:N, "
        "transient:N, intermittent:N, or a shape, as line:5, square:5, L:5, U:5"
    )


def _drawn_faults(
    what: str, times: str, network: Network, chance: list[int], duration_s: float
) -> Iterable[Fault]:
    """The faults of a pattern, its cables drawn by ``chance``."""
    kind, _, size = what.partition(":")
    timed = kind in ("transient", "intermittent")
    if not size.isdecimal() or (timed and times):
        raise InputError(
            f"faults {what!r}: give {kind}:N with a whole number N"
            + (", without times" if timed else "")
        )
    if kind == "intermittent":
        return cable_faults.intermittent_faults(
            network, int(size), seed=chance, duration_s=duration_s
        )
    if kind == "transient":
        lasting = (0.0, TRANSIENT_SHARE * duration_s)
        return cable_faults.random_faults(
            network, int(size), seed=chance, start_s=(0.0, duration_s), duration_s=lasting
        )
    start, stop = _times(f"{what}@{times}", times)
    drawn = (
        cable_faults.random_faults(network, int(size), seed=chance)
        if kind == "random"
        else cable_faults.shape_faults(
            network, _SHAPE_OF[kind.lower()], size=int(size), seed=chance
        )
    )
    return (replace(fault, start_s=start, stop_s=stop) for fault in drawn)


def _entry(entry: JsonObject, network: Network, folder: Path) -> tuple[Fault, ...]:
    sort = next((name for name in ("node", "flapping") if name in entry), "link")
    needed = {sort, "start_s", "stop_s"} | ({"period_s", "down_s"} if sort == "flapping" else set())
    missing = sorted(needed - set(entry))
    if missing:
        raise InputError(f"{missing[0]} is missing")
    for_good = entry["stop_s"] is None and sort != "flapping"
    for key in _NUMBERS:
        value = 1.0 if key == "stop_s" and for_good else entry.get(key, 1.0)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or value != value
            or abs(value) > 1e9
        ):
            raise InputError(f"{key} {value!r} is not a finite number within 1e9")
    values = {key: value for key, value in entry.items() if key != sort} | (
        {"stop_s": math.inf} if for_good else {}
    )
    if sort == "node":
        return node_faults(network, entry["node"], **values)
    link = parse_link(entry[sort], network)
    if sort == "link" and "impairments" in entry:
        if "kind" in entry or "loss_fraction" in entry:
            raise InputError("impairments cannot be combined with kind or loss_fraction")
        values |= _impaired(str(entry["link"]), str(entry["impairments"]), folder)
    return flapping_faults(link, **values) if sort == "flapping" else (Fault(link=link, **values),)
