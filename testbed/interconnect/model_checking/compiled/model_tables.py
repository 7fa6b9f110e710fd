"""A small network and its rules as arrays, for compiled steps.

These are the fields of ``NacTransitionSystem``. A state is a row of bytes: the byte string of
``NacTransitionSystem`` with room for ``MAX_SIGNALS`` signals, of which the unused ones are 0. The
row of the empty network is all 0.
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.arrays import BoolArray, IntArray
from testbed.interconnect.model_checking.small_networks import SmallNetwork
from testbed.interconnect.model_checking.symmetry import Image
from testbed.interconnect.model_checking.transition_system import LAGGING, NacTransitionSystem
from testbed.interconnect.static_paths import NONE

# Number of recovery signals in transit for which a row has room.
MAX_SIGNALS = 8


class ModelTables(NamedTuple):
    """A transition system as numbers and arrays.

    Fields without a description are as in ``NacTransitionSystem`` and ``Rules``. Lists of lists are
    stored as one list, and ``..._first`` contains the index at which each of them begins.

    Attributes:
        table: [failed cables, router, destination] The next link.
        dead: [failed cables, link] Whether the link has failed.
        cycle: Links of all cycles.
        paired: Numbers of the cycles that begin with a link and end with an output, by both.
        late_throttle: Whether this decision of LAGGING may lag; likewise the others.
        images: Number of symmetries, without the identity.
        image_places: Fields of ``symmetry.Image`` by symmetry; likewise the others.
    """

    links: int
    a: int
    o: int
    inputs_at: int
    avoidance_at: int
    reserved_at: int
    out_asks_at: int
    input_asks_at: int
    avoidance_asks_at: int
    down_at: int
    signals_at: int
    start: IntArray
    end: IntArray
    into_first: IntArray
    into: IntArray
    table: IntArray
    dead: BoolArray
    flows: IntArray
    cable_first: IntArray
    cable: IntArray
    most_down: int
    cycle_first: IntArray
    cycle: IntArray
    paired_first: IntArray
    paired: IntArray
    nac: bool
    late_throttle: bool
    late_priority: bool
    late_identification: bool
    late_signal: bool
    slack: int
    reserve: bool
    stop_local: bool
    own_request: bool
    repeat_when_full: bool
    recovery_run: bool
    check_output: bool
    recall: bool
    keep_output: bool
    ask_anew: bool
    images: int
    image_places: IntArray
    image_packets: IntArray
    image_outs: IntArray
    image_masks: IntArray
    image_cycles: IntArray


def model_tables(model: NacTransitionSystem, images: Sequence[Image]) -> ModelTables:
    """Return the arrays of a transition system.

    Args:
        model: The transition system.
        images: Its symmetries, of which the first is the identity.
    """
    network = model.network
    rules = model.rules
    failures = 1 << len(network.cables)
    table = np.full((failures, network.routers, network.routers), NONE, np.int16)
    for down, rows in network.tables.items():
        table[down] = rows
    into_first, into = _flat(model.into)
    cable_first, cable = _flat(network.cables)
    cycle_first, cycle = _flat(model.cycles)
    pairs = itertools.product(range(model.links), range(model.links))
    paired_first, paired = _flat([model.cycles_of.get(pair, ()) for pair in pairs])
    symmetries = images[1:]
    values: dict[str, Any] = {}
    for name, value in (*vars(model).items(), *vars(rules).items()):
        if name in ModelTables._fields:
            values[name] = value
    for part in LAGGING:
        values[f"late_{part}"] = rules.lags(part)
    values |= {
        "start": np.array(model.start, np.int16),
        "end": np.array(model.end, np.int16),
        "into_first": into_first,
        "into": into,
        "table": table,
        "dead": _dead_links(network, model.links),
        "flows": np.array(network.flows, np.int16).reshape(-1, 2),
        "cable_first": cable_first,
        "cable": cable,
        "most_down": network.most_down,
        "cycle_first": cycle_first,
        "cycle": cycle,
        "paired_first": paired_first,
        "paired": paired,
        "images": len(symmetries),
        "image_places": _image_rows(symmetries, "places", model.signals_at, np.int16),
        "image_packets": _image_rows(symmetries, "packets", 256, np.uint8),
        "image_outs": _image_rows(symmetries, "outs", 256, np.uint8),
        "image_masks": _image_rows(symmetries, "masks", 256, np.uint8),
        "image_cycles": _image_rows(symmetries, "cycles", len(model.cycles), np.int16),
    }
    return ModelTables(**values)


def _dead_links(network: SmallNetwork, links: int) -> BoolArray:
    """Return whether each link has failed, by the bit set of the failed cables."""
    dead = np.zeros((1 << len(network.cables), links), np.bool_)
    for down in network.tables:
        dead[down, list(network.dead_links(down))] = True
    return dead


def row_bytes(model: NacTransitionSystem) -> int:
    """Return the size of a row, in bytes: a multiple of eight."""
    return -(-(model.signals_at + 2 * MAX_SIGNALS) // 8) * 8


def most_steps(model: NacTransitionSystem) -> int:
    """Return a limit to the number of steps that may follow a state."""
    closings = sum(len(numbers) for numbers in model.cycles_of.values())
    return (
        len(model.network.flows)
        + 3 * model.links
        + closings
        + 3 * MAX_SIGNALS
        + len(model.network.cables)
    )


def state_of(model: NacTransitionSystem, row: IntArray) -> bytes:
    """Return the state of a row."""
    signals = int(np.count_nonzero(row[model.signals_at + 1 :: 2]))
    return row[: model.signals_at + 2 * signals].tobytes()


def _flat(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Return the index at which each list begins, and all lists as one."""
    first = np.cumsum([0, *map(len, lists)], dtype=np.int32)
    return first, np.array([*itertools.chain.from_iterable(lists)], np.int16)


def _image_rows(images: Sequence[Image], field: str, width: int, kind: npt.DTypeLike) -> IntArray:
    """Return a field of images as the rows of an array, which may be empty.

    Args:
        images: The images.
        field: Name of a field of ``Image`` that is a list.
        width: Length of the list.
        kind: Type of the array's values.
    """
    rows = [list(getattr(image, field)) for image in images]
    return np.array(rows, kind).reshape(len(rows), width)
