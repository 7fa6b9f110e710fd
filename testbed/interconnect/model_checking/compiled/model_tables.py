"""A small network and its rules as arrays, for compiled steps: ``nac_steps.NacSteps`` in numbers, states as rows of
bytes.

The row of the empty network is 0 throughout: a row is the string of bytes of ``NacTransitionSystem`` with room for
``MOST_SIGNALS`` signals, those that are not there being 0.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.arrays import BoolArray, IntArray
from testbed.interconnect.model_checking.symmetry import Image
from testbed.interconnect.model_checking.transition_system import LAGGING, NacTransitionSystem

MOST_SIGNALS = 8
"""Recovery signals under way at once that a row has room for."""


class ModelTables(NamedTuple):
    """``nac_steps.NacSteps``: where what is in a row, the network, the rules; lists of lists are one list and where
    each begins.

    ``table``: [failed cables, router, destination], ``dead``: [failed cables, link]; ``cycle``: links of all cycles;
    ``paired``: numbers of cycles by link and output. ``image_...``: symmetries without the one that moves nothing.
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
    """The arrays of a model; ``images``: its symmetries, the first of which moves nothing."""
    network, rules = model.network, model.rules
    downs = 1 << len(network.cables)
    table = np.full((downs, network.routers, network.routers), -1, np.int16)
    dead = np.zeros((downs, model.links), np.bool_)
    for down, rows in network.tables.items():
        table[down] = rows
        dead[down, list(network.dead_links(down))] = True
    into_first, into = _flat(model.into)
    cable_first, cable = _flat(network.cables)
    cycle_first, cycle = _flat(model.cycles)
    pairs = [
        model.cycles_of.get((i, j), ()) for i in range(model.links) for j in range(model.links)
    ]
    paired_first, paired = _flat(pairs)
    others = images[1:]
    named = {
        name: value
        for name, value in {**vars(model), **vars(rules)}.items()
        if name in ModelTables._fields
    }
    return ModelTables(**named | {
        **{f"late_{part}": rules.lags(part) for part in LAGGING},
        "start": np.array(model.start, np.int16), "end": np.array(model.end, np.int16), "into_first": into_first,
        "into": into, "table": table, "dead": dead, "flows": np.array(network.flows, np.int16).reshape(-1, 2),
        "cable_first": cable_first, "cable": cable, "most_down": network.most_down, "cycle_first": cycle_first,
        "cycle": cycle, "paired_first": paired_first, "paired": paired, "images": len(others),
        "image_places": _rows([image.places for image in others], model.signals_at, np.int16),
        "image_packets": _rows([list(image.packets) for image in others], 256, np.uint8),
        "image_outs": _rows([list(image.outs) for image in others], 256, np.uint8),
        "image_masks": _rows([list(image.masks) for image in others], 256, np.uint8),
        "image_cycles": _rows([image.cycles for image in others], len(model.cycles), np.int16),
    })  # fmt: skip


def row_bytes(model: NacTransitionSystem) -> int:
    """Of a row: whole words of eight bytes."""
    return -(-(model.signals_at + 2 * MOST_SIGNALS) // 8) * 8


def most_steps(model: NacTransitionSystem) -> int:
    """No state has more steps that may follow."""
    closings = sum(len(numbers) for numbers in model.cycles_of.values())
    return (
        len(model.network.flows)
        + 3 * model.links
        + closings
        + 3 * MOST_SIGNALS
        + len(model.network.cables)
    )


def state_of(model: NacTransitionSystem, row: IntArray) -> bytes:
    """The state of a row."""
    signals = int(np.count_nonzero(row[model.signals_at + 1 :: 2]))
    return row[: model.signals_at + 2 * signals].tobytes()


def _flat(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    first = np.cumsum([0, *map(len, lists)], dtype=np.int32)
    return first, np.array([v for one in lists for v in one], np.int16)


def _rows(lists: Sequence[Sequence[int]], width: int, kind: npt.DTypeLike) -> IntArray:
    return np.array(lists, kind).reshape(len(lists), width)
