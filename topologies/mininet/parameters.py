"""Mininet's parameters of links (``addLink(h, s, bw=10, delay="5ms", loss=1)``) as fields of ours.

As Mininet 2.3 takes them (``TCIntf.config``, ``Link.__init__``): ``bw`` in Mbit/s, ``loss`` in per cent, ``delay`` and
``jitter`` as tc writes times, ``max_queue_size`` in packets; ``params1`` and ``params2`` are of one end each: what its
interface does to packets that leave there.
"""

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from topologies.errors import TopologyError
from topologies.text.json_types import JsonObject
from topologies.text.units import is_bare, rate_bps, seconds

BACK = "\0back"
"""The field of a link's other direction: all its fields, where they are not the same. No file has it."""
UNITS = {"bw": "Mbit/s", "jitter": "a time", "loss": "per cent", "max_queue_size": "packets"}
"""Parameters of a link that are read, and their units; ``delay`` is ours too, and read with the others."""
_TC_TIME = r"[\d.]+(?:e-?\d+)?\s*[a-zµ]+"
_TC_DELAY = re.compile(
    rf"(?P<delay>{_TC_TIME})\s+(?P<jitter>{_TC_TIME})(?:\s+(?P<correlation>[\d.]+)%?)?"
    r"(?:\s+distribution\s+(?P<distribution>\w+))?"
)
PAIRS = {"ports": "port", "ips": "ip", "macs": "mac"}
"""What a link has at both ends, source first -> its name among the parameters of one end."""


def split_ends(fields: JsonObject, place: str) -> tuple[JsonObject, JsonObject | None]:
    """The fields of a link from its source, and those of the other direction where they differ.

    Takes apart ``params1``, ``params2``, ``port1``, ``port2``, ``addr1``, ``addr2``, and ``node1``, ``node2``, which
    say whose those are. The key of a parallel link stands in the first alone. Raises TopologyError, which names the
    place, for values that are none.

    >>> split_ends({"source": "h", "target": "s", "port2": 3, "params1": {"bw": 1}}, "links[0]")
    ({'bw': 1, 'ports': [None, 3]}, {'ports': [3, None]})
    """
    shared = {
        key: value
        for key, value in fields.items()
        if key not in ("source", "target", "node1", "node2")
    }
    backwards = "node1" in fields and (fields["node1"], fields.get("node2")) == (
        fields.get("target"),
        fields.get("source"),
    )
    ends = [_end(shared, number, place) for number in ((2, 1) if backwards else (1, 2))]
    for name, single in PAIRS.items():
        found = [end.pop(single, None) for end in ends]
        if name == "ports":
            found = [_whole_number(port) for port in found]
        given = shared.pop(name, None)
        if given is not None and not (isinstance(given, list) and len(given) == 2):
            raise TopologyError(
                f"{place}: {name} {str(given)[:60]!r}: give two, of the source and of the target"
            )
        pair = [
            one if one is not None else other
            for one, other in zip(found, given or [None, None], strict=True)
        ]
        if pair == [None, None]:
            continue
        if name == "ports" and not all(one is None or _is_whole(one) for one in pair):
            raise TopologyError(f"{place}: ports {pair!r} must be whole numbers from 0")
        ends = [ends[0] | {name: pair}, ends[1] | {name: pair[::-1]}]
    back = {key: value for key, value in shared.items() if key != "key"} | ends[1]
    return shared | ends[0], None if ends[0] == ends[1] else back


def hand_over_addresses(nodes: Iterable[object], links: Iterable[object]) -> None:
    """Give the addresses that links have at their ends to the hosts there, in the order of the links.

    A host's ``ip`` is then the list of all, its own first; its ``mac`` the first one.
    """
    known = {
        str(node.get("id")): node
        for node in nodes
        if isinstance(node, dict) and node.get("kind") == "host"
    }
    for link in (one for one in links if isinstance(one, dict)):
        fields = [link, link.get(BACK, {})]
        ips, macs = ([one.pop(name, None) for one in fields][:1] for name in ("ips", "macs"))
        for place, end in enumerate(("source", "target")):
            node = known.get(str(link.get(end)))
            if node is None:
                continue
            if macs[0] and macs[0][place]:
                node.setdefault("mac", macs[0][place])
            if ips[0] and ips[0][place]:
                old = node.get("ip", [])
                listed = (
                    [old] if isinstance(old, str) else list(old) if isinstance(old, list) else []
                )
                bare = [str(one).partition("/")[0] for one in listed]
                new = str(ips[0][place])
                node["ip"] = listed if new.partition("/")[0] in bare else [*listed, new]


def _end(shared: JsonObject, number: int, place: str) -> JsonObject:
    """What the link says of one of its ends, taken out of its fields."""
    name = f"params{number}"
    found = shared.pop(name, None) or {}
    if not isinstance(found, Mapping):
        raise TopologyError(f"{place}: {name} {str(found)[:60]!r} is no table of parameters")
    of_link = {"port": shared.pop(f"port{number}", None), "mac": shared.pop(f"addr{number}", None)}
    return {key: value for key, value in ({**of_link, **found}).items() if value is not None}


def read_parameters(fields: JsonObject, place: str) -> list[str]:
    """Put what Mininet's parameters mean in their place; returns their names.

    Capacities, delays and impairments of our own stay; one and the same said twice raises TopologyError, and so does a
    number out of its range. ``delay`` is read by then, as ``delay_s``.

    >>> fields = {"bw": 10, "delay_s": 0.005, "jitter": "1ms", "loss": 2}
    >>> read_parameters(fields, "links[0]"), fields["capacity_bps"], fields["impairments"]
    (['bw', 'jitter', 'loss'], 10000000.0, 'loss:0.02 delay:0.005,jitter=0.001')
    """
    found = {name: fields.pop(name) for name in UNITS if name in fields}
    given = {name: value for name, value in found.items() if value is not None}
    if "bw" in given:
        _refuse_twice(fields, "bw", "capacity_bps", place)
        fields["capacity_bps"] = _megabits(given["bw"], place)
    words = []
    if "loss" in given:
        loss = given["loss"]
        percent = _number(
            loss.strip().removesuffix("%") if isinstance(loss, str) else loss, "loss", place
        )
        if not 0 <= percent <= 100:
            raise TopologyError(f"{place}: loss {percent:g} is in per cent; give 0 to 100")
        words += [f"loss:{percent / 100!r}"] if percent / 100 else []
    if "jitter" in given:
        words += _jitter(fields, given["jitter"], place)
    if words:
        _refuse_twice(fields, "jitter" if "loss" not in given else "loss", "impairments", place)
        fields["impairments"] = " ".join(words)
    if "max_queue_size" in given:
        given["max_queue_size"] = _whole_number(given["max_queue_size"])
        if not _is_whole(given["max_queue_size"]) or not given["max_queue_size"]:
            raise TopologyError(
                f"{place}: max_queue_size {given['max_queue_size']!r} is no number of packets"
            )
        fields["max_queue_size"] = given["max_queue_size"]
    return list(given)


def split_delay(fields: JsonObject, place: str) -> list[str]:
    """Split a delay of several words, as tc takes it, into delay and jitter.

    netem's syntax is ``TIME [JITTER [CORRELATION]] [distribution NAME]``.

    Returns:
        Notes of what the words say beyond that and what is not done.

    Raises:
        TopologyError: The words are something else, or the link has a jitter of its own.

    >>> fields = {"delay": "10ms 2ms distribution normal"}
    >>> notes = split_delay(fields, "links[0]")
    >>> fields
    {'delay': '10ms', 'jitter': '2ms'}
    """
    delay = fields.get("delay")
    if not isinstance(delay, str) or not math.isnan(seconds(delay)):
        return []
    words = _TC_DELAY.fullmatch(delay.strip())
    if words is None:
        if " " in delay.strip():
            raise TopologyError(
                f"{place}: delay {delay[:60]!r} is not DELAY JITTER; write loss and other"
                " impairments by their names, and times as '10ms 2ms'"
            )
        return []
    _refuse_twice(fields, "delay of two times", "jitter", place)
    fields["delay"] = words["delay"]
    fields["jitter"] = words["jitter"]
    notes = []
    if words["correlation"] and float(words["correlation"]):
        notes.append(f"delays vary independently of each other, without {words['correlation']} %")
    if words["distribution"] not in (None, "uniform"):
        notes.append(f"delays vary evenly, not by the distribution {words['distribution']}")
    return notes


def with_tc_unit(value: object) -> object:
    """Return a time as tc reads it: every number without a unit is in microseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value}us"
    if not isinstance(value, str):
        return value
    if is_bare(value):
        return f"{value.strip()}us"
    words = value.split()
    if len(words) > 1 and is_bare(words[0]) and seconds(value) != seconds(value):
        words[0] += "us"
    if len(words) > 1 and is_bare(words[1]):
        words[1] += "us"
    return " ".join(words)


def _refuse_twice(fields: JsonObject, name: str, ours: str, place: str) -> None:
    if fields.get(ours):
        raise TopologyError(f"{place}: both {name!r} and {ours!r} are there; keep one")


def _megabits(value: object, place: str) -> float:
    """Bits a second of a bandwidth in Mbit/s, or with its unit."""
    number = (
        rate_bps(value)
        if isinstance(value, str) and not is_bare(value)
        else 1e6 * _number(value, "bw", place)
    )
    if not number > 0:
        raise TopologyError(f"{place}: bw {value!r} is no rate; give Mbit/s above 0, as bw=10")
    return number


def _jitter(fields: JsonObject, value: object, place: str) -> list[str]:
    """The words for a delay that varies, which take the place of ``delay_s``."""
    if not isinstance(value, str) or is_bare(value):
        raise TopologyError(f"{place}: jitter {value!r} has no unit; write it as '1ms'")
    jitter_s, delay_s = seconds(value), fields.get("delay_s", 0.0)
    if not jitter_s >= 0:
        raise TopologyError(f"{place}: jitter {value!r} is no time; write it as '1ms'")
    if not jitter_s:
        return []
    if not isinstance(delay_s, float | int) or jitter_s > delay_s:
        raise TopologyError(
            f"{place}: jitter {value!r} is more than the delay: no packet waits less than nothing; give a longer delay"
        )
    fields["delay_s"] = 0.0
    return [f"delay:{float(delay_s)!r},jitter={jitter_s!r}"]


def _number(value: Any, name: str, place: str) -> float:
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise TopologyError(
            f"{place}: {name} {repr(value)[:60]} is no number; it is in {UNITS[name]}"
        )
    return number


def _whole_number(value: object) -> object:
    """Return the whole number that is written as text or as a float; any other value as it is."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) < 20:
        return int(value)
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
