"""The faults of a simulation in words: named links, links by chance, shapes of neighbouring links.

Failures of a trace come from a file (testbed/results/trace_files.py) and are scaled in testbed/faults/link_faults.py.
"""

from __future__ import annotations

from dataclasses import replace

from testbed.errors import InputError
from testbed.faults.fault_shapes import SHAPES, shape_faults
from testbed.faults.link_faults import LinkFault, check_faults, random_faults
from topologies import Network

RANDOM, TRANSIENT = "random", "transient"
TRANSIENT_SHARE = 0.1
"""Transient failures last up to this share of the run (document 003, 5.6.4)."""


def parse_faults(network: Network, words: str | None, *, seed: int, duration_s: float = 1.0) -> tuple[LinkFault, ...]:
    """Words with commas between; times in seconds, down from and up at, without: from the start, for ever.

    ``s0_0-s0_1@0.1-0.2``: that link. ``random:12`` or ``random:12@0.1-0.2``: so many links drawn by the seed.
    ``transient:12``: so many, each from a moment of its own within ``duration_s``, for up to a tenth of it.
    ``line:5``, ``square:5``, ``L:5``, ``U:5`` (``@`` as above): legs of so many links, at a place drawn by the seed.
    Raises InputError that names the word, or the link that is not there.
    """
    if not words:
        return ()
    found: list[LinkFault] = []
    for place, word in enumerate(words.split(",")):
        found += _faults_of(
            network, word.strip(), seed=[seed, 3] if place == 0 else [seed, 3, place], duration_s=duration_s
        )
    return check_faults(network, found)


def _faults_of(network: Network, word: str, *, seed: list[int], duration_s: float) -> tuple[LinkFault, ...]:
    what, _, times = word.partition("@")
    kind, colon, size = what.partition(":")
    shape = next((name for name in SHAPES if name.lower() == kind.lower()), None)
    if not colon or (shape is None and kind not in (RANDOM, TRANSIENT)):
        return (_link(word, what, times),)
    if not size.isdigit() or (kind == TRANSIENT and times):
        raise InputError(
            f"--faults {word!r}: give {kind}:N with a whole number N" + (", without times" if kind == TRANSIENT else "")
        )
    if kind == TRANSIENT:
        lasting = (0.0, TRANSIENT_SHARE * duration_s)
        return random_faults(network, int(size), seed=seed, start_s=(0.0, duration_s), duration_s=lasting)
    down, up = _times(word, times)
    if shape is not None:
        return shape_faults(network, shape, size=int(size), seed=seed, down_s=down, up_s=up)
    return tuple(replace(fault, down_s=down, up_s=up) for fault in random_faults(network, int(size), seed=seed))


def _link(word: str, cable: str, times: str) -> LinkFault:
    first, dash, second = cable.partition("-")
    if not dash:
        raise _unreadable(word)
    down, up = _times(word, times)
    return LinkFault(first=first, second=second, down_s=down, up_s=up)


def _times(word: str, times: str) -> tuple[float, float | None]:
    down, _, up = times.partition("-")
    try:
        return float(down or 0), float(up) if up else None
    except ValueError:
        raise _unreadable(word) from None


def _unreadable(word: str) -> InputError:
    return InputError(
        f"--faults {word!r}: give links as s0_0-s0_1 or s0_0-s0_1@0.1-0.2 (seconds), random:N, transient:N, or a shape, "
        "as line:5, square:5, L:5, U:5"
    )
