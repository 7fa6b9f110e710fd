"""The additional packets that random failures cost a stream, compared with D x P x ROR.

D is the time for which each link is down, P the packet rate outside faults, and ROR the redundancy
overall requirement (Gabrielyan 2007, eq. 21 and 22; ``fec.redundancy.ror``).

All figures count complete blocks. The *excess* of a block is the number of its packets beyond N
outside faults. A *state* is the set of broken cables; it lasts from one beginning or end of a
failure to the next. The formula predicts the excess of *settled* blocks (``RunFacts``).

The *transient* is the excess of all other blocks, minus the excess that the formula predicts for
their time. It consists of late parity before the sender's answer, and of blocks whose N is still
raised after the end of a failure.

A state is *unrecoverable* if no N repairs its losses, or if no loss report arrives with which the
sender could choose a larger N.
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
        state: The index of the state in which each block began.
        settled: A mask of the settled blocks.
        excess: Packets sent beyond N outside faults.
        requested: The excess that the state requires; 0 in unrecoverable states.
    """

    state: IntArray
    settled: BoolArray
    excess: FloatArray
    requested: FloatArray


def failure_costs(facts: RunFacts) -> JsonObject:
    """Return the packets sent beyond N outside faults, by their cause.

    The routes of the plan must not change, and its faults must take links down. Unrecoverable
    states are left out. Cost: a few passes over the packet log.

    Returns:
        Numbers of packets:

        - ``total``: the excess of all blocks.
        - ``formula``: eq. 22, summed over the failures as if each happened alone.
        - ``states``: the same, but overlapping failures lose the union of their labels.
        - ``settled``, ``settled_predicted``: the measured and the predicted excess of settled
          blocks.
        - ``before``: the transient of blocks that began while a cable was broken.
        - ``after``: the transient of blocks that began while no cable was broken.
        - ``block_packets``: N outside faults.

        Other figures:

        - ``blocks``, ``failures``: number of blocks and of failures.
        - ``failing_s``, ``overlapping_s``, ``beyond_s``: time with a broken cable, with several,
          and in unrecoverable states.
        - ``redundancy``: mean over time of the relative excess, without the transient.
        - ``redundancy_states``: the same, predicted.
        - ``undecodable``, ``undecodable_settled``: number of undecodable blocks, of all and of
          settled ones.
        - ``by_down``: figures by the number of broken cables.
        - ``by_cable``: figures of each cable while no other cable was broken.
    """
    plan = facts.plan
    run = facts.run
    costs = StateCosts(plan)
    base = costs.base
    blocks_per_s = 1 / plan.stream.block_s
    lasts_s = facts.stops_s - facts.starts_s
    broken = _broken_cables(facts, costs)
    down = broken.sum(axis=1)
    recoverable = ~np.isnan(facts.sizes)
    required = np.nan_to_num(facts.sizes - base)
    state = facts.epoch_of_block
    blocks = _Blocks(
        state=state,
        settled=facts.settled,
        excess=(run.packets_of_block - base).astype(np.float64),
        requested=required[state],
    )
    transient = recoverable[state] & ~blocks.settled
    failing = down[state] > 0
    unrequested = blocks.excess - blocks.requested
    base_times_duration = base * plan.duration_s
    mean_packets = lasts_s * _mean_excess(required, blocks)
    return {
        "total": float(blocks.excess[recoverable[state]].sum()),
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
        "beyond_s": float(lasts_s[~recoverable].sum()),
        "redundancy": float(mean_packets[recoverable].sum()) / base_times_duration,
        "redundancy_states": float((lasts_s * required).sum()) / base_times_duration,
        "undecodable_settled": int((blocks.settled & run.never_complete).sum()),
        "undecodable": int(run.never_complete.sum()),
        "by_down": _rows_by_name([str(count) for count in down], lasts_s, blocks),
        "by_cable": _rows_by_name(_single_cables(broken, costs), lasts_s, blocks),
    }


def _each_alone(run: StreamMeasurements, costs: StateCosts) -> float:
    """Return the sum over failures of required excess (packets per block) times duration (s).

    Each failure is treated as if it happened alone. Failures that no N repairs are left out.
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
    """Return the name of the broken cable of each state; empty if none or several are broken."""
    names = []
    for row in broken:
        indices = np.flatnonzero(row)
        names.append(cable_name(costs.cables[indices[0]]) if len(indices) == 1 else "")
    return names


def _mean_excess(required: FloatArray, blocks: _Blocks) -> FloatArray:
    """Return the mean excess of a settled block in each state, shape (states,).

    For a state without settled blocks it is estimated: its required excess, multiplied by the ratio
    of measured to required excess over all settled blocks.
    """
    states = blocks.state[blocks.settled]
    excess = blocks.excess[blocks.settled]
    counts = np.bincount(states, minlength=len(required))
    sums = np.bincount(states, weights=excess, minlength=len(required))
    share = excess.sum() / max(1.0, blocks.requested[blocks.settled].sum())
    return np.where(counts > 0, sums / np.maximum(1, counts), required * share)


def _rows_by_name(names: Sequence[str], lasts_s: FloatArray, blocks: _Blocks) -> list[JsonObject]:
    """Return a row for each name of states with settled blocks, sorted by name.

    States with an empty name are left out. ``time_s`` is the duration of all states with the name,
    ``blocks`` the number of their settled blocks, and ``measured`` and ``predicted`` are the mean
    excess of these blocks.
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
