"""Faults from a document: single ones, a node's, a flapping link's; every mistake named with its entry and key. Pure."""

from __future__ import annotations

from typing import Any

from testbed.errors import InputError
from testbed.faults.fault import Fault
from testbed.faults.fault_schedules import flapping_faults, node_faults
from testbed.faults.link_names import parse_link
from topologies.network import Network

_NUMBERS = ("start_s", "stop_s", "loss_fraction", "period_s", "down_s")
_KEYS = {
    "link": {"link", "kind", "start_s", "stop_s", "direction", "loss_fraction"},
    "node": {"node", "start_s", "stop_s"},
    "flapping": {"flapping", "kind", "start_s", "stop_s", "period_s", "down_s"},
}
"""What an entry may have; its first key says what it is."""


def parse_faults(document: Any, network: Network, where: str) -> tuple[Fault, ...]:
    """Faults from a JSON document: a list, or {"faults": list}, of {"link": "a->b", "kind", "start_s", "stop_s", ...},
    {"node": "a", "start_s", "stop_s"} (all its cables) and {"flapping": "a->b", "period_s", "down_s", "start_s", "stop_s"}.

    They may overlap. Raises InputError naming the entry and the key that is wrong.
    """
    entries = document.get("faults") if isinstance(document, dict) else document
    if not isinstance(entries, list):
        raise InputError(f'{where}: give a list of faults, or {{"faults": [...]}}')
    faults: list[Fault] = []
    for number, entry in enumerate(entries):
        spot = f"{where}, fault {number}"
        if not isinstance(entry, dict):
            raise InputError(f"{spot}: not an object; give link, kind, start_s and stop_s")
        try:
            faults += _entry(entry, network)
        except InputError as error:
            raise InputError(f"{spot}: {error}") from None
    return tuple(sorted(faults, key=lambda f: (f.start_s, f.link)))


def _entry(entry: dict[str, Any], network: Network) -> tuple[Fault, ...]:
    sort = next((name for name in ("node", "flapping") if name in entry), "link")
    allowed = _KEYS[sort]
    unknown = sorted(set(entry) - allowed)
    if unknown:
        raise InputError(f"unknown key {unknown[0]!r}; the keys are {', '.join(sorted(allowed))}")
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
    return flapping_faults(link, **values) if sort == "flapping" else (Fault(link=link, **values),)
