"""The values of a catalogue name: numbers, shapes, allocations and texts, as they are written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

from topologies.errors import TopologyError
from topologies.swiss_t1 import checked_allocation

ValueKind = Literal["whole", "number", "shape", "allocation", "text"]


def _whole(name: str, text: str) -> int:
    if not (text.removeprefix("-").isascii() and text.removeprefix("-").isdigit() and len(text) <= 25):
        raise TopologyError(f"{name}={text[:40]} is not a whole number")
    return int(text)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise TopologyError(f"{name}={text[:40]} is not a number") from error


def _shape(name: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(_whole(name, size) for size in text.split("x"))
    except TopologyError as error:
        raise TopologyError(f"{name} {text[:40]!r} must be whole numbers joined by 'x', as in 8x8") from error


def _allocation(name: str, text: str) -> tuple[int, ...]:
    parts = text.split("-")
    if len(text) > 40 or not all(part.isascii() and part.isdigit() for part in parts):
        raise TopologyError(f"{name} {text[:40]!r}: give 8 counts from 0 to 4 joined by '-', as in 4-4-4-4-0-0-0-0")
    return checked_allocation([int(part) for part in parts])


def _text(name: str, text: str) -> str:
    if not text:
        raise TopologyError(f"{name}= is empty; give it a value or leave it out")
    return text


PARSERS: Mapping[str, Callable[[str, str], Any]] = {
    "whole": _whole,
    "number": _number,
    "shape": _shape,
    "allocation": _allocation,
    "text": _text,
}
"""Kind -> what reads a parameter's name and text; TopologyError for what is none of the kind."""
