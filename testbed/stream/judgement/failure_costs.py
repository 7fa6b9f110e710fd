"""The packets that random failures cost a stream, compared with D x P x ROR (Gabrielyan 2007, eq. 21 and 22).

All figures count whole blocks. The *excess* of a block is the number of packets sent of it beyond N at rest.
A state of the cables, that is which of them are broken, lasts from one beginning or end of a failure to the
next. The formula is about *settled* blocks (``RunFacts``).

The *transient* is the excess of all other blocks, less what the formula asks for in their time: late parity
before the answer, and N that is still raised after the end of a failure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from testbed.faults.fault import cables_of
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.measurements import (
    BoolArray,
    FloatArray,
    IntArray,
    StreamMeasurements,
)
from testbed.stream.prediction.active_faults import cable_name
from testbed.stream.prediction.expected_redundancy import StateCosts
from topologies import JsonObject


class _Blocks(NamedTuple):
    """The blocks of a run, shape (blocks,).

    Attributes:
        state: The state in which each began.
        settled: A mask of the settled ones.
        excess: Packets beyond N at rest.
        requested: How many of these the state asks for; 0 beyond reach.
    """

    state: IntArray
    settled: BoolArray
    excess: FloatArray
    requested: FloatArray


def failure_costs(facts: RunFacts) -> JsonObject:
    """Return the packets sent beyond N at rest by name, and what they were sent for.

    The routes of the plan do not change, and its faults cut their links. Times beyond reach count for
    nothing: there no N helps, or no report gets back to ask for it. Cost: a few passes over the packet log.

    Returns:
        Numbers of packets. ``total``: all beyond N at rest. ``formula``: eq. 22, every failure for as long
        as it lasted, as if by itself. ``states``: the same if failures that overlap lose the union of their
        labels. ``settled`` and ``settled_predicted``: of settled blocks. ``before``: the transient while
        something was broken. ``after``: the transient with nothing broken. ``block_packets``: N at rest.

        Other figures. ``blocks``: all blocks. ``redundancy``: the mean over time of the packets sent over
        those at rest, less one, without the transient. ``redundancy_states``: the same, predicted.
        ``by_down``: figures by the number of broken cables. ``by_cable``: figures of each cable while it
        alone was broken. ``beyond_s``: time beyond reach.
    """
    plan = facts.plan
    run = facts.run
    costs = StateCosts(plan)
    base = costs.base
    blocks_per_s = 1 / plan.stream.block_s
    lasts_s = facts.stops_s - facts.starts_s
    broken = _broken_cables(facts, costs)
    down = broken.sum(axis=1)
    reach = ~np.isnan(facts.sizes)
    required = np.nan_to_num(facts.sizes - base)
    state = facts.epoch_of_block
    blocks = _Blocks(
        state=state,
        settled=facts.settled,
        excess=(run.packets_of_block - base).astype(np.float64),
        requested=required[state],
    )
    transient = reach[state] & ~blocks.settled
    failing = down[state] > 0
    unrequested = blocks.excess - blocks.requested
    packets_at_rest = base * plan.duration_s
    mean_packets = lasts_s * _means(required, blocks)
    return {
        "total": float(blocks.excess[reach[state]].sum()),
        "formula": _each_alone(run, costs) * blocks_per_s,
        "states": float((lasts_s * required).sum()) * blocks_per_s,
        "settled": float(blocks.excess[blocks.settled].sum()),
        "settled_predicted": float(blocks.requested[blocks.settled].sum()),
        "before": float(unrequested[transient & failing].sum()),
        "after": float(blocks.excess[transient & ~failing].sum()),
        "block_packets": base,
        "blocks": len(state),
        "failures": len(run.faults),
        "failing_s": float(lasts_s[down > 0].sum()),
        "overlapping_s": float(lasts_s[down > 1].sum()),
        "beyond_s": float(lasts_s[~reach].sum()),
        "redundancy": float(mean_packets[reach].sum()) / packets_at_rest,
        "redundancy_states": float((lasts_s * required).sum()) / packets_at_rest,
        "undecodable_settled": int((blocks.settled & run.never_complete).sum()),
        "undecodable": int(run.never_complete.sum()),
        "by_down": _pooled([str(count) for count in down], lasts_s, blocks),
        "by_cable": _pooled(_single_cables(broken, costs), lasts_s, blocks),
    }


def _each_alone(run: StreamMeasurements, costs: StateCosts) -> float:
    """Return packets per block times seconds that the failures call for, each as if alone.

    Failures of cables beyond reach are left out.
    """
    sizes = costs.block_sizes(costs.singles())
    extra = np.nan_to_num(sizes - costs.base)
    extra_of_cable = dict(zip(costs.cables, extra, strict=True))
    total = 0.0
    for times in run.faults:
        (cable,) = cables_of([times.fault.link])
        total += (times.stop_s - times.start_s) * float(extra_of_cable.get(cable, 0))
    return total


def _broken_cables(facts: RunFacts, costs: StateCosts) -> BoolArray:
    """Return which cables are broken in each state, shape (states, cables)."""
    column = {cable: k for k, cable in enumerate(costs.cables)}
    broken: BoolArray = np.zeros((len(facts.epochs), len(column)), dtype=np.bool_)
    for number, epoch in enumerate(facts.epochs):
        links = [facts.plan.network.links[index].id for index, _ in epoch.broken]
        for cable in cables_of(links):
            if cable in column:
                broken[number, column[cable]] = True
    return broken


def _single_cables(broken: BoolArray, costs: StateCosts) -> list[str]:
    """Return the name of the only broken cable of each state; empty if there are none or several."""
    names = []
    for row in broken:
        indices = np.flatnonzero(row)
        names.append(cable_name(costs.cables[indices[0]]) if len(indices) == 1 else "")
    return names


def _means(required: FloatArray, blocks: _Blocks) -> FloatArray:
    """Return the mean excess of a block in each state, by its own settled blocks.

    A state too short to have any gets the excess that it asks for, times the share of the requested excess
    that all settled blocks had.
    """
    states = blocks.state[blocks.settled]
    excess = blocks.excess[blocks.settled]
    counts = np.bincount(states, minlength=len(required))
    sums = np.bincount(states, weights=excess, minlength=len(required))
    share = excess.sum() / max(1.0, blocks.requested[blocks.settled].sum())
    return np.where(counts > 0, sums / np.maximum(1, counts), required * share)


def _pooled(names: Sequence[str], lasts_s: FloatArray, blocks: _Blocks) -> list[JsonObject]:
    """Return figures of settled blocks by the name of their state, in the order of the names.

    States without a name are left out. ``time_s`` is the duration of all states of the name; ``measured`` and
    ``predicted`` are the mean excess of a block.
    """
    label = np.array(names)
    rows = []
    for name in sorted(set(names) - {""}):
        chosen = blocks.settled & (label == name)[blocks.state]
        if not chosen.any():
            continue
        row: JsonObject = {
            "name": name,
            "time_s": round(float(lasts_s[label == name].sum()), 3),
            "blocks": int(chosen.sum()),
            "measured": float(blocks.excess[chosen].mean()),
            "predicted": float(blocks.requested[chosen].mean()),
        }
        rows.append(row)
    return rows
