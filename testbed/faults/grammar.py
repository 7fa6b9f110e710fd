"""The grammar of faults: how commands, the prompt and files say what fails, how and when.

Text, for the prompt of ``testbed up`` and the options of commands::

    faults  = fault {"," fault} | "poisson:" setting {"," setting}
    fault   = what ["@" times] {" " manner}
    what    = link | cable | "random:" N | "transient:" N | "intermittent:" N | shape ":" N
    link    = a "->" b ["#" key]
    cable   = a "-" b
    shape   = "line" | "square" | "L" | "U"
    times   = [start] ["-" [stop]]
    manner  = "down" | "blackhole" | "loss" fraction | impairment {" " impairment}
    impairment = "loss:" F | "ge:p=" P ",r=" R | "delay:" S ",jitter=" J | "jitter:" J
               | "reorder:" F | "duplicate:" F | "trace:" FILE
    setting = ("rate=" | "lasts=" | "start=" | "lengths=" | "kind=" | "loss=") value

- A link leads from a to b; its key distinguishes parallel links (``model.naming.names``).
- A cable is both links between two switches.
- A shape has legs of N links, and begins at a random switch.
- Times are in seconds, or have a unit (200ms). Without a start, a fault begins at once; without a
  stop, it is permanent. A list of faults requires the "-" for a permanent fault.
- The word "one-way" may be added to each manner.
- ``random:N`` are N random cables. ``transient:N`` are N random cables that fail once each for a
  short time. ``intermittent:N`` are N random cables that fail ten times each, for a tenth of the
  run in all.

No command accepts everything: cables and patterns are for the interconnect simulator, ``poisson:``
is for streams, a link with times for striped files, and a link with its manner for the prompt.
Impairments and their values are defined in ``topologies.impairments``. Files contain the same as
JSON; see ``parse_fault_document``. The result is a tuple of ``Fault`` (for ``poisson:`` their
distribution).
"""

import math
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path

from testbed.errors import InputError
from testbed.faults import cable_faults
from testbed.faults.fault import Fault, PoissonFaults, by_start, flapping_faults, node_faults
from testbed.model.json_values import prefix_errors
from testbed.model.naming import names
from testbed.model.options import kinds
from testbed.model.options.quantities import plain_numbers
from testbed.model.schemas import refuse_unknown
from topologies import JsonObject, LinkId, Network, label_of
from topologies.impairments import impairment_text, parse_impairments
from topologies.network import quoted
from topologies.text.units import fraction, is_bare, seconds

# Transient faults last for at most this fraction of the run (Zarza 2011, 5.6.4).
TRANSIENT_SHARE = 0.1

# Setting of ``poisson:`` -> field of PoissonFaults.
_SETTINGS = {
    "rate": "rate_per_s",
    "lasts": "lasts_s",
    "start": "start_s",
    "lengths": "lengths",
    "kind": "kind",
    "loss": "loss_fraction",
}
# A comma between the values of an impairment, such as that in ge:p=0.01,r=0.3, and any other comma.
_BETWEEN_VALUES = re.compile(r",\s*[0-9a-z-]+=")
_BETWEEN_FAULTS = re.compile(r",(?!\s*[0-9a-z-]+=)")

_SECONDS = r"(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?(?:ns|us|µs|ms|s|min|h)?|nan|inf)"
_TIMES = re.compile(rf"({_SECONDS})?(?:-({_SECONDS})?)?", re.IGNORECASE)

# What may follow a link: the times and the manner.
_AFTER_LINK = re.compile(r"\s*(?:@\s*(?P<times>\S*))?(?P<manner>(?:\s.*)?)", re.DOTALL)
# The times of a permanent fault in a list: a start and a dash.
_PERMANENT_TIMES = re.compile(r"\s*@\s*\S*-(?:\s|$)")
_MANNER_WORDS = re.compile(r"\s+(?:down|blackhole|loss|one-way|[a-z]+:).*", re.DOTALL)
# A pattern of cables, such as random:5@0.1-0.2.
_PATTERN = re.compile(r"\s*(?P<kind>[A-Za-z]+):(?P<size>[^\s,@]*)(?:@(?P<times>[^\s,]*))?")
_AT_TIMES = re.compile(r"(?:\s*@\s*(?P<times>[^\s,]*))?")
_SHAPE_OF = {name.lower(): name for name in cable_faults.SHAPES}

# Keys of a JSON document whose values are numbers, and the largest accepted number.
_NUMBERS = ("start_s", "stop_s", "loss_fraction", "period_s", "down_s")
_MAX_NUMBER = 1e9

# What fails, a cable or a pattern such as ``random:5``, and the text of its times.
Cables = tuple[str | tuple[str, str], str]


def no_faults(text: str) -> bool:
    """Return whether a text means no faults: ``none``, or an empty JSON list."""
    return text.strip() == "none" or text.split() in (["[]"], ["[", "]"])


def parse_link(text: object, network: Network) -> LinkId:
    """Return the link of ``a->b``, ``a->b#key`` or ``a-b``; InputError if there is none."""
    if not isinstance(text, str):
        raise InputError(f"link {text!r} is no link of {network.name!r}; write it a->b")
    return names.read_link(text, network)


def parse_fault(text: str, network: Network) -> Fault:
    """Return the fault of a link, with its times and its manner if they are given.

    Raises:
        InputError: The text is not a valid fault. The message says what is wrong.

    >>> from topologies import load_network
    >>> fault = parse_fault("s1->s2@0.5-2 loss 0.3 one-way", load_network("swiss-t1"))
    >>> fault.link, fault.start_s, fault.stop_s, fault.kind, fault.loss_fraction, fault.direction
    (('s1', 's2', 0), 0.5, 2.0, 'loss', 0.3, 'forward')
    """
    readings = list(dict.fromkeys(fault for fault, _ in _faults_at(text, 0, [len(text)], network)))
    why_none = partial(_no_fault, text, network)
    return names.one_of(readings, f"fault {text!r}", fault_text, why_none)


def fault_text(fault: Fault) -> str:
    """Return the text of a fault that has one reading in every network.

    ``describe`` returns a text for people.

    >>> fault_text(Fault(link=("s1", "s2", 0), start_s=1, kind="loss", loss_fraction=0.5))
    '"s1"->"s2"@1- loss 0.5'
    """
    times = f"@{fault.start_s!r}-"
    if not fault.permanent:
        times += repr(fault.stop_s)
    elif times == "@0.0-":
        times = ""
    return f"{names.link_text(fault.link)}{times} {manner_text(fault)}"


def manner_text(fault: Fault) -> str:
    """Return the text of how a link fails: ``loss 0.3 one-way`` or ``ge:p=0.01,r=0.3``."""
    manner = fault.impairments or fault.kind
    if fault.kind == "loss":
        manner += f" {fault.loss_fraction!r}"
    if fault.direction == "forward":
        manner += " one-way"
    return manner


def standing_fault(link: LinkId, manner: Sequence[str]) -> Fault:
    """Return a permanent fault of a link that begins at once.

    Args:
        link: Id of the link.
        manner: The words that say how the link fails.

    Raises:
        InputError: The words are not valid.

    >>> fault = standing_fault(("s1", "s2", 0), ["loss", "0.3", "one-way"])
    >>> fault.kind, fault.loss_fraction, fault.direction, fault.permanent
    ('loss', 0.3, 'forward', True)
    """
    return Fault(link=link, **_manner(" ".join((label_of(link), *manner)), list(manner)))


def parse_fault_list(text: str, network: Network) -> tuple[Fault, ...]:
    """Return the faults of a list of ``LINK@START-STOP [MANNER]``, sorted by their start.

    The faults are separated by commas. ``LINK@START-`` is a permanent fault.

    Raises:
        InputError: A fault is not valid. The message contains it.

    >>> from topologies import load_network
    >>> faults = parse_fault_list("s2->s3@5-9 one-way, s1->s2@1-3", load_network("swiss-t1"))
    >>> [(fault.link[:2], fault.stop_s) for fault in faults]
    [(('s1', 's2'), 3.0), (('s2', 's3'), 9.0)]
    """
    commas = [match.start() for match in re.finditer(",", text)]

    def items_at(at: int) -> names.Found[Fault]:
        stops = [comma for comma in commas if comma >= at]
        stops.append(len(text))
        return _faults_at(text, at, stops, network, timed=True)

    def why_none() -> str:
        for item in map(str.strip, _BETWEEN_FAULTS.split(text)):
            if parse_fault(item, network).permanent:
                return (
                    f"fault {item!r}: missing end time; expected LINK@START-STOP, "
                    "or LINK@START- for a permanent fault"
                )
        return (
            f"faults {text!r}: {network.name!r} has no such links; "
            "write names with a comma in double quotes"
        )

    readings = names.lists_of(text, items_at)
    faults = names.one_list_of(readings, f"faults {text!r}", fault_text, why_none)
    return tuple(sorted(faults, key=by_start))


def parse_cable_faults(
    text: str | None, network: Network, *, seed: int, duration_s: float
) -> tuple[Fault, ...]:
    """Return the faults of a list of cables and patterns, sorted by their start.

    Args:
        text: The list. None and "" mean no faults.
        network: The network.
        seed: Seed of the random generator for patterns.
        duration_s: Duration of the run in seconds. Transient faults begin within it.

    Raises:
        InputError: An item is not valid, or the network has no such cable.
    """
    if not text:
        return ()

    def why_none() -> str:
        for item in text.split(","):
            if not names.lists_of(item, partial(_cables_at, item, network)):
                return _no_cable(item.strip(), network)
        return _no_cable(text.strip(), network)

    readings = names.lists_of(text, partial(_cables_at, text, network))
    cables = names.one_list_of(readings, f"faults {text!r}", _cable_text, why_none)
    faults: list[Fault] = []
    for index, (cable, times) in enumerate(cables):
        start_s, stop_s = _times(text, times)
        if isinstance(cable, tuple):
            faults.append(cable_faults.cable_fault(cable, start_s=start_s, stop_s=stop_s))
            continue
        # Patterns of the same list draw different cables.
        pattern_seed = [seed, 3] if index == 0 else [seed, 3, index]
        faults += _pattern_faults(cable, times, network, pattern_seed, duration_s)
    return cable_faults.check_faults(network, faults)


def parse_poisson(text: str) -> PoissonFaults:
    """Return the distribution of ``poisson:rate=0.01,lasts=1``, which may have more settings.

    Raises:
        InputError: A setting is missing or not valid. The message contains it.
    """
    values: JsonObject = {}
    for setting in text.partition(":")[2].split(","):
        name, _, value = setting.partition("=")
        if name not in _SETTINGS:
            known_settings = ", ".join(f"{key}=" for key in _SETTINGS)
            raise InputError(f"faults {text!r}: {setting!r} is none of {known_settings}")
        values[_SETTINGS[name]] = _setting(text, name, value)
    for name in ("rate", "lasts"):
        if _SETTINGS[name] not in values:
            raise InputError(
                f"faults {text!r}: {name}= is missing; write poisson:rate=0.01,lasts=1"
            )
    return PoissonFaults(**values)


def _setting(text: str, name: str, value: str) -> str | float:
    """Parse the value of one setting of ``poisson:``."""
    if name in ("lengths", "kind"):
        return value
    if name == "loss":
        number = fraction(value)
    elif name == "rate":
        # A rate has no unit.
        number = float(value) if is_bare(value) else math.nan
    else:
        number = seconds(value)
    if not math.isfinite(number):
        raise InputError(f"faults {text!r}: {value!r} is no number")
    return number


def parse_node_time(text: str, where: str, network: Network) -> tuple[str, float]:
    """Return the node and the seconds of ``NODE@TIME``.

    A name that no node has is returned unchanged. It may be an alias; otherwise whoever plans the
    run refuses it.

    Args:
        text: The text.
        where: How the error begins.
        network: The network of the node.

    Raises:
        InputError: The text is not of this form.
    """
    name, _, time = text.rpartition("@")
    at_s = math.nan
    with suppress(InputError):
        at_s = kinds.moment(time)
    if not name or math.isnan(at_s):
        raise InputError(f"{where} {text!r}: give NODE@TIME, as in r5@2.5 or r5@250ms")
    if name in network.node_index or names.whole(name, names.nodes_at(name, 0, network)):
        return names.read_node(name, network), at_s
    return name.strip(), at_s


def parse_fault_document(
    document: object, network: Network, where: str, folder: Path | None = None
) -> tuple[Fault, ...]:
    """Return the faults of a JSON document, sorted by their start. They may overlap.

    The document is a list, or an object with the list under ``faults``. Each entry is one of:

    - ``{"link": "a->b", "start_s", "stop_s", ...}`` with other fields of ``Fault``, or with
      ``impairments`` instead of ``kind`` and ``loss_fraction``;
    - ``{"node": "a", "start_s", "stop_s"}`` for all cables of a node;
    - ``{"flapping": "a->b", "period_s", "down_s", "start_s", "stop_s"}``.

    A ``stop_s`` of null is a permanent fault, but is not allowed for a flapping link.

    Args:
        document: The document.
        network: The network.
        where: How errors begin.
        folder: The folder of the traces that impairments name. None: the current folder.

    Raises:
        InputError: An entry is not valid. The message contains its number and the wrong key.
    """
    refuse_unknown(document, "faults", where)
    document = plain_numbers(document)
    entries = document.get("faults") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise InputError(f'{where}: give a list of faults, or {{"faults": [...]}}')
    faults: list[Fault] = []
    for number, entry in enumerate(entries):
        entry_name = f"{where}, fault {number}"
        if not isinstance(entry, dict):
            raise InputError(f"{entry_name}: not an object; give link, kind, start_s and stop_s")
        with prefix_errors(entry_name):
            faults += _entry_faults(entry, network, folder or Path())
    return tuple(sorted(faults, key=by_start))


def _faults_at(
    text: str, at: int, stops: Sequence[int], network: Network, *, timed: bool = False
) -> names.Found[Fault]:
    """Yield every fault at a position of a text, with the position after it.

    Args:
        text: The text.
        at: The position.
        stops: The positions at which the fault may end.
        network: The network.
        timed: Whether to yield only faults with a stop, or with a dash for a permanent fault.
    """
    for link, link_end in names.links_at(text, at, network):
        if link not in network.link_index:
            continue
        for stop in _fault_ends(text, link_end, stops):
            after_link = text[link_end:stop]
            # The text may have another reading that is valid.
            with suppress(InputError):
                fault = _fault(link, text[at:stop], after_link)
                if not timed or not fault.permanent or _PERMANENT_TIMES.match(after_link):
                    yield fault, stop


def _fault_ends(text: str, link_end: int, stops: Sequence[int]) -> Iterator[int]:
    """Yield the positions at which a fault may end.

    These are the stops from the end of its link to the first one that cannot be a comma between the
    values of an impairment.
    """
    for stop in stops:
        if stop >= link_end:
            yield stop
            if not _BETWEEN_VALUES.match(text, stop):
                return


def _fault(link: LinkId, text: str, after_link: str) -> Fault:
    """Return the fault of a link.

    Args:
        link: Id of the link.
        text: The complete text of the fault, for messages.
        after_link: The part of the text after the link.
    """
    parts = _AFTER_LINK.fullmatch(after_link)
    if parts is None:
        raise InputError(
            f"fault {text.strip()!r}: {after_link!r} is neither @START-STOP nor a manner"
        )
    start_s, stop_s = _times(text.strip(), parts["times"] or "")
    manner = _manner(text.strip(), (parts["manner"] or "").split())
    return Fault(link=link, start_s=start_s, stop_s=stop_s, **manner)


def _no_fault(text: str, network: Network) -> str:
    """Return why a text is no fault: because of its link, or of what follows the link."""
    end_of_link: dict[LinkId, int] = {}
    for link, end in names.links_at(text, 0, network):
        if link in network.link_index:
            end_of_link[link] = end
    # The longest link is the most likely one.
    for link, end in sorted(end_of_link.items(), key=itemgetter(1), reverse=True):
        if _AFTER_LINK.fullmatch(text[end:]):
            try:
                return str(_fault(link, text, text[end:]))
            except InputError as error:
                return str(error)
    name, _, after_name = text.rpartition("@")
    if not name or "->" in after_name:
        name = _MANNER_WORDS.sub("", text)
    return names.no_link(name, network)


def _times(text: str, times: str) -> tuple[float, float]:
    """Return start and stop of a fault in seconds.

    Args:
        text: The complete text of the fault, for messages.
        times: The part of the text after the "@".
    """
    parts = _TIMES.fullmatch(times)
    if parts is None:
        raise InputError(f"fault {text!r}: {times!r} is not START-STOP in seconds, as in 0.2-3")
    start_s = _moment(parts[1]) if parts[1] else 0.0
    stop_s = _moment(parts[2]) if parts[2] else math.inf
    return start_s, stop_s


def _moment(text: str) -> float:
    """Return the seconds of a text that the pattern of times accepts."""
    if text.lower() in ("nan", "inf"):
        return float(text)
    return seconds(text)


def _manner(text: str, manner: Sequence[str]) -> JsonObject:
    """Return the fields of ``Fault`` for the words after a link and its times.

    Args:
        text: The complete text of the fault, for messages.
        manner: The words.
    """
    direction = "forward" if "one-way" in manner else "both"
    manner_words = [word for word in manner if word != "one-way"]
    if manner_words and ":" in manner_words[0]:
        return {**_impaired(text, " ".join(manner_words)), "direction": direction}
    kind, *numbers = manner_words or ["down"]
    expected_numbers = 1 if kind == "loss" else 0
    if kind not in ("down", "blackhole", "loss") or len(numbers) != expected_numbers:
        raise InputError(
            f"fault {text!r}: write LINK, then down, blackhole or loss FRACTION, "
            "or impairments as ge:p=0.01,r=0.3"
        )
    loss_fraction = fraction(numbers[0]) if numbers else 1.0
    if math.isnan(loss_fraction):
        raise InputError(
            f"fault {text!r}: loss {numbers[0]!r} is no number; give 0 to 1, or per cent as 30%"
        )
    return {"kind": kind, "loss_fraction": loss_fraction, "direction": direction}


def _impaired(text: str, impairments: str, folder: str | Path = "") -> JsonObject:
    """Return the fields of ``Fault`` for impairments, and read their traces.

    Args:
        text: The complete text of the fault, for messages.
        impairments: The text of the impairments.
        folder: The folder of the traces.
    """
    with prefix_errors(f"fault {text!r}"):
        parsed = parse_impairments(impairments, folder)
        return {"kind": "impaired", "impairments": impairment_text(parsed)}


def _cables_at(text: str, network: Network, at: int) -> names.Found[Cables]:
    """Yield every pattern and cable at a position of a text, with the position after it.

    Pairs of nodes without a cable are yielded only if the text at the position names no cable.
    """
    pattern = _PATTERN.match(text, at)
    if pattern:
        is_shape = pattern["kind"].lower() in _SHAPE_OF
        if is_shape or pattern["kind"] in ("random", "transient", "intermittent"):
            yield (f"{pattern['kind']}:{pattern['size']}", pattern["times"] or ""), pattern.end()
    pairs = [(link[:2], end) for link, end in names.links_at(text, at, network)]
    connected_pairs = [(pair, end) for pair, end in pairs if _are_connected(pair, network)]
    for pair, end in connected_pairs or pairs:
        times = _AT_TIMES.match(text, end)
        if times:
            yield (pair, times["times"] or ""), times.end()


def _are_connected(pair: tuple[str, str], network: Network) -> bool:
    return any(network.links[i].target == pair[1] for i in network.out_links(pair[0]))


def _cable_text(cables: Cables) -> str:
    """Return the text of a cable or pattern that has one reading in every network."""
    what, times = cables
    text = what if isinstance(what, str) else "-".join(map(quoted, what))
    if times:
        text += f"@{times}"
    return text


def _no_cable(item: str, network: Network) -> str:
    """Return why an item of a list is neither a cable nor a pattern."""
    separator = "->" if "->" in item else "-"
    ends = re.sub("@[^@]*$", "", item).split(separator)
    unknown = [end.strip() for end in ends if not names.whole(end, names.nodes_at(end, 0, network))]
    if len(ends) == 2 and unknown:
        return f"fault on {item}: {names.no_node(unknown[0], network)}"
    return (
        f"faults {item!r}: give links as s0_0->s0_1 or s0_0->s0_1@0.1-0.2 (seconds), "
        "a JSON file, random:N, "
        "transient:N, intermittent:N, or a shape, as line:5, square:5, L:5, U:5"
    )


def _pattern_faults(
    pattern: str, times: str, network: Network, seed: list[int], duration_s: float
) -> tuple[Fault, ...]:
    """Return the faults of a pattern.

    Args:
        pattern: The pattern, such as ``random:5``.
        times: The text of its times, which must be empty for transient and intermittent faults.
        network: The network.
        seed: Seed of the random generator.
        duration_s: Duration of the run in seconds.
    """
    kind, _, size = pattern.partition(":")
    has_own_times = kind in ("transient", "intermittent")
    if not size.isdecimal() or (has_own_times and times):
        message = f"faults {pattern!r}: give {kind}:N with a whole number N"
        if has_own_times:
            message += ", without times"
        raise InputError(message)
    count = int(size)
    if kind == "intermittent":
        return cable_faults.intermittent_faults(network, count, seed=seed, duration_s=duration_s)
    if kind == "transient":
        return cable_faults.random_faults(
            network,
            count,
            seed=seed,
            start_s=(0.0, duration_s),
            duration_s=(0.0, TRANSIENT_SHARE * duration_s),
        )
    start_s, stop_s = _times(f"{pattern}@{times}", times)
    if kind == "random":
        faults = cable_faults.random_faults(network, count, seed=seed)
    else:
        shape = _SHAPE_OF[kind.lower()]
        faults = cable_faults.shape_faults(network, shape, size=count, seed=seed)
    return tuple(replace(fault, start_s=start_s, stop_s=stop_s) for fault in faults)


def _entry_faults(entry: JsonObject, network: Network, folder: Path) -> tuple[Fault, ...]:
    """Return the faults of an entry of a JSON document."""
    subject = "link"
    required = {"start_s", "stop_s"}
    if "node" in entry:
        subject = "node"
    elif "flapping" in entry:
        subject = "flapping"
        required |= {"period_s", "down_s"}
    required.add(subject)
    missing = sorted(required - set(entry))
    if missing:
        raise InputError(f"{missing[0]} is missing")

    values = {key: value for key, value in entry.items() if key != subject}
    for key in _NUMBERS:
        # A flapping link has a last period, so it needs a stop.
        if key == "stop_s" and entry["stop_s"] is None and subject != "flapping":
            values["stop_s"] = math.inf
        elif key in entry:
            _check_number(key, entry[key])
    if subject == "node":
        return node_faults(network, entry["node"], **values)
    link = parse_link(entry[subject], network)
    if subject == "flapping":
        return flapping_faults(link, **values)
    if "impairments" in entry:
        if "kind" in entry or "loss_fraction" in entry:
            raise InputError("impairments cannot be combined with kind or loss_fraction")
        values |= _impaired(str(entry["link"]), str(entry["impairments"]), folder)
    return (Fault(link=link, **values),)


def _check_number(key: str, value: object) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    # NaN is not within the limits.
    if not is_number or not -_MAX_NUMBER <= value <= _MAX_NUMBER:  # type: ignore[operator]
        raise InputError(f"{key} {value!r} is not a finite number within 1e9")
