"""What random failures cost a stream in packets, against D x P x ROR (Gabrielyan 2007, eq. 21 and 22); pure numpy.

Everything is counted in whole blocks: a block's *excess* is what was sent of it beyond N at rest. A state of the cables
(which of them are broken) lasts from one failure's beginning or end to the next. *Settled* blocks
(``RunFacts``) are what the formula speaks of.

The excess of all others, less what the formula asks for in their time, is the *transient*: late parity before the
answer, N still raised after a failure's end.
"""

from collections.abc import Sequence

import numpy as np

from testbed.faults.fault import cables_of
from testbed.stream.facts.run_facts import RunFacts
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.prediction.active_faults import cable_name
from testbed.stream.prediction.expected_redundancy import StateCosts
from topologies import JsonObject


def failure_costs(facts: RunFacts) -> JsonObject:
    """Packets sent beyond rest, and what they were sent for, by name; for a plan whose routes do not change and whose
    faults cut their links. Cost: a few passes over the packet log.

    Numbers of packets: ``total``: everything beyond N at rest. ``formula``: eq. 22, every failure for as long as it
    lasted, as if by itself. ``states``: the same where failures that overlap lose the union of their labels.
    ``settled`` and ``settled_predicted``: of settled blocks. ``before``: transient while something was broken, less
    what the formula asks for in that time. ``after``: transient with nothing broken. ``block_packets``: N at rest.

    ``blocks``: all of them. ``redundancy``: mean over time of what was sent over rest, less one, the transient left
    out; ``redundancy_states``: predicted. ``by_down``: by how many cables were broken; ``by_cable``: of each, while it
    alone was. Times beyond reach (``beyond_s``: no N helps, or no report gets back to ask for it) count for nothing.
    """
    plan, run, costs = facts.plan, facts.run, StateCosts(facts.plan)
    base, per_s, lasts_s = costs.base, 1 / plan.stream.block_s, facts.stops_s - facts.starts_s
    broken = _broken_cables(facts, costs)
    down, state, settled = broken.sum(axis=1), facts.epoch_of_block, facts.settled
    reach, required = ~np.isnan(facts.sizes), np.nan_to_num(facts.sizes - base)
    excess, requested = (run.packets_of_block - base).astype(np.float64), required[state]
    inside, busy = reach[state], down[state] > 0
    over_rest = base * plan.duration_s
    names = ["+".join(cable_name(costs.cables[k]) for k in np.flatnonzero(row)) for row in broken]
    blocks = (state, settled, excess, requested)
    return {
        "total": float(excess[inside].sum()),
        "formula": _each_alone(run, costs) * per_s,
        "states": float((lasts_s * required).sum()) * per_s,
        "settled": float(excess[settled].sum()),
        "settled_predicted": float(requested[settled].sum()),
        "before": float((excess - requested)[inside & ~settled & busy].sum()),
        "after": float(excess[inside & ~settled & ~busy].sum()),
        "block_packets": base,
        "blocks": len(state),
        "failures": len(run.faults),
        "failing_s": float(lasts_s[down > 0].sum()),
        "overlapping_s": float(lasts_s[down > 1].sum()),
        "beyond_s": float(lasts_s[~reach].sum()),
        "redundancy": float((lasts_s * _means(required, blocks))[reach].sum()) / over_rest,
        "redundancy_states": float((lasts_s * required).sum()) / over_rest,
        "undecodable_settled": int((settled & run.never_complete).sum()),
        "undecodable": int(run.never_complete.sum()),
        "by_down": _pooled([str(count) for count in down], lasts_s, blocks),
        "by_cable": _pooled(
            [name if k == 1 else "" for k, name in zip(down, names, strict=True)], lasts_s, blocks
        ),
    }


Blocks = tuple[IntArray, BoolArray, FloatArray, FloatArray]
"""Shape (blocks,) each: the state in which it began, whether it is settled, packets beyond N at rest, how many of them
the state asks for (0 beyond reach)."""


def _each_alone(run: StreamMeasurements, costs: StateCosts) -> float:
    """Packets a block times seconds that the failures call for, each as if alone; those of cables beyond reach left
    out."""
    extra = dict(
        zip(
            costs.cables,
            np.nan_to_num(costs.block_sizes(costs.singles()) - costs.base),
            strict=True,
        )
    )
    return sum(
        (t.stop_s - t.start_s) * float(extra.get(cables_of([t.fault.link])[0], 0))
        for t in run.faults
    )


def _broken_cables(facts: RunFacts, costs: StateCosts) -> BoolArray:
    """Shape (states, cables)."""
    column = {link: k for k, link in enumerate(costs.cables)}
    broken: BoolArray = np.zeros((len(facts.epochs), len(column)), dtype=np.bool_)
    for number, epoch in enumerate(facts.epochs):
        for link in cables_of(facts.plan.network.links[i].id for i, _ in epoch.broken):
            if link in column:
                broken[number, column[link]] = True
    return broken


def _means(required: FloatArray, blocks: Blocks) -> FloatArray:
    """Shape (states,): mean excess of a block in each, by its own settled blocks; of states too short to have any, what
    they call for times the share of what they called for that all settled blocks had."""
    state, settled, excess, requested = blocks
    own = np.bincount(state[settled], minlength=len(required))
    sums = np.bincount(state[settled], weights=excess[settled], minlength=len(required))
    share = excess[settled].sum() / max(1.0, requested[settled].sum())
    return np.where(own > 0, sums / np.maximum(1, own), required * share)


def _pooled(names: Sequence[str], lasts_s: FloatArray, blocks: Blocks) -> list[JsonObject]:
    """Settled blocks by the name of their state, in the order of the names; nameless states are left out. ``time_s``:
    how long such states lasted; ``measured`` and ``predicted``: mean excess of a block."""
    state, settled, excess, requested = blocks
    label, found = np.array(names), list[JsonObject]()
    for name in sorted(set(names) - {""}):
        mine = settled & (label == name)[state]
        if mine.any():
            time_s, count = round(float(lasts_s[label == name].sum()), 3), int(mine.sum())
            means = {
                "measured": float(excess[mine].mean()),
                "predicted": float(requested[mine].mean()),
            }
            found.append({"name": name, "time_s": time_s, "blocks": count, **means})
    return found
