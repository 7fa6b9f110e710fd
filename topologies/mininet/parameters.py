"""Converts Mininet's parameters of links to fields of the testbed.

They are the arguments of ``addLink(h, s, bw=10, delay="5ms", loss=1)``, with their meaning in
Mininet 2.3 (``TCIntf.config``, ``Link.__init__``): ``bw`` is in Mbit/s, ``loss`` in per cent,
``delay`` and ``jitter`` are times of tc, ``max_queue_size`` is in packets. ``params1`` and
``params2`` count for one end each: for the packets that leave through its interface.
"""

import math
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from topologies.errors import TopologyError
from topologies.text.json_types import JsonObject
from topologies.text.units import is_bare, rate_bps, seconds

# The key of the fields of a link's other direction, if they differ. No file has such a key.
BACK = "\0back"
# The parameters of links that are read, and their units. ``delay`` is read together with the
# testbed's own delays.
UNITS = {"bw": "Mbit/s", "jitter": "a time", "loss": "per cent", "max_queue_size": "packets"}
_TC_TIME = r"[\d.]+(?:e-?\d+)?\s*[a-zµ]+"
_TC_DELAY = re.compile(
    rf"(?P<delay>{_TC_TIME})\s+(?P<jitter>{_TC_TIME})(?:\s+(?P<correlation>[\d.]+)%?)?"
    r"(?:\s+distribution\s+(?P<distribution>\w+))?"
)
# The keys of values that a link has at both ends, as a list with that of the source first. Each has
# its key among the parameters of one end.
PAIRS = {"ports": "port", "ips": "ip", "macs": "mac"}
# Longer numbers are not ports.
_MAX_DIGITS = 19


def split_ends(fields: JsonObject, location: str) -> tuple[JsonObject, JsonObject | None]:
    """Split the fields of a link into those of its two directions.

    ``params1``, ``params2``, ``port1``, ``port2``, ``addr1`` and ``addr2`` are assigned to the
    ends. ``node1`` and ``node2`` say which end is the first. Only the first direction has the key
    of a parallel link.

    Args:
        fields: The fields of the link.
        location: Its position in the document, for messages.

    Returns:
        The fields from source to target, and those from target to source; None if they are the
        same.

    Raises:
        TopologyError: A value is invalid.

    >>> split_ends({"source": "h", "target": "s", "port2": 3, "params1": {"bw": 1}}, "links[0]")
    ({'bw': 1, 'ports': [None, 3]}, {'ports': [3, None]})
    """
    shared = dict(fields)
    source = shared.pop("source", None)
    target = shared.pop("target", None)
    node1 = shared.pop("node1", None)
    node2 = shared.pop("node2", None)
    is_reversed = "node1" in fields and (node1, node2) == (target, source)
    source_number = 2 if is_reversed else 1
    at_source = _take_parameters_of_end(shared, source_number, location)
    at_target = _take_parameters_of_end(shared, 3 - source_number, location)
    for name, single_name in PAIRS.items():
        value_at_source = at_source.pop(single_name, None)
        value_at_target = at_target.pop(single_name, None)
        if name == "ports":
            value_at_source = _to_whole_number(value_at_source)
            value_at_target = _to_whole_number(value_at_target)
        pair = _take_pair(shared, name, location)
        if value_at_source is not None:
            pair[0] = value_at_source
        if value_at_target is not None:
            pair[1] = value_at_target
        if pair == [None, None]:
            continue
        if name == "ports" and not all(port is None or _is_whole_number(port) for port in pair):
            raise TopologyError(f"{location}: ports {pair!r} must be whole numbers from 0")
        at_source[name] = pair
        at_target[name] = pair[::-1]
    if at_source == at_target:
        return shared | at_source, None
    fields_back = {key: value for key, value in shared.items() if key != "key"}
    return shared | at_source, fields_back | at_target


def _take_pair(shared: JsonObject, name: str, location: str) -> list[Any]:
    """Take a list of two values, of the source and of the target, out of the fields of a link."""
    pair = shared.pop(name, None)
    if pair is None:
        return [None, None]
    if not isinstance(pair, list) or len(pair) != 2:
        raise TopologyError(
            f"{location}: {name} {str(pair)[:60]!r}: give two values, that of the source and that"
            " of the target"
        )
    return list(pair)


def _take_parameters_of_end(shared: JsonObject, number: int, location: str) -> JsonObject:
    """Take the parameters of one end out of the fields of a link.

    Args:
        shared: The fields of the link.
        number: 1 or 2.
        location: Position of the link in the document, for messages.
    """
    name = f"params{number}"
    parameters = shared.pop(name, None) or {}
    if not isinstance(parameters, Mapping):
        raise TopologyError(
            f"{location}: {name} {str(parameters)[:60]!r} is not a table of parameters"
        )
    port = shared.pop(f"port{number}", None)
    mac = shared.pop(f"addr{number}", None)
    at_end = {"port": port, "mac": mac, **parameters}
    return {key: value for key, value in at_end.items() if value is not None}


def hand_over_addresses(nodes: Iterable[object], links: Iterable[object]) -> None:
    """Move the addresses at the ends of links to the hosts there, in the order of the links.

    ``ip`` of a host becomes the list of all its addresses, with its own one first. ``mac`` becomes
    the first MAC address.

    Args:
        nodes: The entries of nodes, which are changed.
        links: The entries of links, which are changed.
    """
    hosts: dict[str, JsonObject] = {}
    for node in nodes:
        if isinstance(node, dict) and node.get("kind") == "host":
            hosts[str(node.get("id"))] = node
    for link in links:
        if not isinstance(link, dict):
            continue
        ips = link.pop("ips", None) or [None, None]
        macs = link.pop("macs", None) or [None, None]
        # The other direction has the same addresses in the opposite order.
        fields_back = link.get(BACK, {})
        fields_back.pop("ips", None)
        fields_back.pop("macs", None)
        for index, end in enumerate(("source", "target")):
            host = hosts.get(str(link.get(end)))
            if host is not None:
                _add_addresses(host, ips[index], macs[index])


def _add_addresses(host: JsonObject, ip: object, mac: object) -> None:
    """Add an IP address to a host; set its MAC address if it has none."""
    if mac:
        host.setdefault("mac", mac)
    if not ip:
        return
    addresses = host.get("ip", [])
    if isinstance(addresses, str):
        addresses = [addresses]
    elif not isinstance(addresses, list):
        addresses = []
    new_address = str(ip)
    without_prefix = [str(address).partition("/")[0] for address in addresses]
    if new_address.partition("/")[0] in without_prefix:
        host["ip"] = list(addresses)
    else:
        host["ip"] = [*addresses, new_address]


def read_parameters(fields: JsonObject, location: str) -> list[str]:
    """Convert Mininet's parameters of a link to capacity, delay, impairments and queue size.

    ``delay`` must have been read already, as ``delay_s``.

    Args:
        fields: The fields of the link, which are changed.
        location: Position of the link in the document, for messages.

    Returns:
        The names of the parameters.

    Raises:
        TopologyError: A value is out of its range, or the link has the same quantity twice.

    >>> fields = {"bw": 10, "delay_s": 0.005, "jitter": "1ms", "loss": 2}
    >>> read_parameters(fields, "links[0]"), fields["capacity_bps"], fields["impairments"]
    (['bw', 'jitter', 'loss'], 10000000.0, 'loss:0.02 delay:0.005,jitter=0.001')
    """
    parameters: JsonObject = {}
    for name in UNITS:
        value = fields.pop(name, None)
        if value is not None:
            parameters[name] = value
    if "bw" in parameters:
        _refuse_twice(fields, "bw", "capacity_bps", location)
        fields["capacity_bps"] = _capacity_bps(parameters["bw"], location)
    impairments = []
    if "loss" in parameters:
        impairments += _loss(parameters["loss"], location)
    if "jitter" in parameters:
        impairments += _jitter(fields, parameters["jitter"], location)
    if impairments:
        name = "loss" if "loss" in parameters else "jitter"
        _refuse_twice(fields, name, "impairments", location)
        fields["impairments"] = " ".join(impairments)
    if "max_queue_size" in parameters:
        packets = _to_whole_number(parameters["max_queue_size"])
        if not _is_whole_number(packets) or not packets:
            raise TopologyError(
                f"{location}: max_queue_size {packets!r} is not a number of packets"
            )
        fields["max_queue_size"] = packets
    return list(parameters)


def split_delay(fields: JsonObject, location: str) -> list[str]:
    """Split a delay with a jitter, as tc reads it, into delay and jitter.

    The syntax of netem is ``TIME [JITTER [CORRELATION]] [distribution NAME]``.

    Args:
        fields: The fields of the link, which are changed.
        location: Position of the link in the document, for messages.

    Returns:
        Notes about a correlation and a distribution, which have no effect.

    Raises:
        TopologyError: The text has another syntax, or the link has another jitter.

    >>> fields = {"delay": "10ms 2ms distribution normal"}
    >>> notes = split_delay(fields, "links[0]")
    >>> fields
    {'delay': '10ms', 'jitter': '2ms'}
    """
    delay = fields.get("delay")
    if not isinstance(delay, str) or not math.isnan(seconds(delay)):
        return []
    match = _TC_DELAY.fullmatch(delay.strip())
    if match is None:
        if " " in delay.strip():
            raise TopologyError(
                f"{location}: delay {delay[:60]!r} is not DELAY JITTER; write loss and other"
                " impairments by their names, and times as '10ms 2ms'"
            )
        return []
    _refuse_twice(fields, "delay of two times", "jitter", location)
    fields["delay"] = match["delay"]
    fields["jitter"] = match["jitter"]
    notes = []
    if match["correlation"] and float(match["correlation"]):
        notes.append(f"delays vary independently of each other, without {match['correlation']} %")
    if match["distribution"] not in (None, "uniform"):
        notes.append(
            f"delays are uniformly distributed, not by the distribution {match['distribution']}"
        )
    return notes


def with_tc_unit(value: object) -> object:
    """Return a time with the unit that tc assumes: numbers without a unit are in microseconds."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value}us"
    if not isinstance(value, str):
        return value
    if is_bare(value):
        return f"{value.strip()}us"
    parts = value.split()
    if len(parts) < 2:
        return " ".join(parts)
    # If the whole text is one time, as "5 ms", its second part is the unit of the first.
    if is_bare(parts[0]) and math.isnan(seconds(value)):
        parts[0] += "us"
    if is_bare(parts[1]):
        parts[1] += "us"
    return " ".join(parts)


def _refuse_twice(fields: JsonObject, name: str, other_name: str, location: str) -> None:
    """Refuse a link that has a parameter and another field of the same meaning."""
    if fields.get(other_name):
        raise TopologyError(f"{location}: both {name!r} and {other_name!r} are there; keep one")


def _capacity_bps(bandwidth: object, location: str) -> float:
    """Return the bits per second of a bandwidth, which is in Mbit/s if it has no unit."""
    if isinstance(bandwidth, str) and not is_bare(bandwidth):
        capacity_bps = rate_bps(bandwidth)
    else:
        capacity_bps = 1e6 * _to_number(bandwidth, "bw", location)
    # NaN is not above 0 either.
    if not capacity_bps > 0:
        raise TopologyError(
            f"{location}: bw {bandwidth!r} is not a rate; give Mbit/s above 0, as bw=10"
        )
    return capacity_bps


def _loss(value: object, location: str) -> list[str]:
    """Return the impairment of a loss in per cent, or an empty list if it is 0."""
    number = value.strip().removesuffix("%") if isinstance(value, str) else value
    percent = _to_number(number, "loss", location)
    if not 0 <= percent <= 100:
        raise TopologyError(f"{location}: loss {percent:g} is in per cent; give 0 to 100")
    fraction = percent / 100
    return [f"loss:{fraction!r}"] if fraction else []


def _jitter(fields: JsonObject, value: object, location: str) -> list[str]:
    """Return the impairment of a delay with a jitter, or an empty list if the jitter is 0.

    The impairment replaces ``delay_s``, which is set to 0.
    """
    if not isinstance(value, str) or is_bare(value):
        raise TopologyError(f"{location}: jitter {value!r} has no unit; write it as '1ms'")
    jitter_s = seconds(value)
    delay_s = fields.get("delay_s", 0.0)
    # NaN is not at least 0 either.
    if not jitter_s >= 0:
        raise TopologyError(f"{location}: jitter {value!r} is not a time; write it as '1ms'")
    if not jitter_s:
        return []
    if not isinstance(delay_s, float | int) or jitter_s > delay_s:
        raise TopologyError(
            f"{location}: jitter {value!r} is more than the delay, which cannot become"
            " negative; give a longer delay"
        )
    fields["delay_s"] = 0.0
    return [f"delay:{float(delay_s)!r},jitter={jitter_s!r}"]


def _to_number(value: Any, name: str, location: str) -> float:
    """Return a number or its text as a finite float."""
    number = math.nan
    if not isinstance(value, bool):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(value)
    if not math.isfinite(number):
        raise TopologyError(
            f"{location}: {name} {repr(value)[:60]} is not a number; it is in {UNITS[name]}"
        )
    return number


def _to_whole_number(value: object) -> object:
    """Return the int of a text or a float with a whole number; any other value is unchanged."""
    if isinstance(value, str) and value.strip().isdecimal() and len(value) <= _MAX_DIGITS:
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _is_whole_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
