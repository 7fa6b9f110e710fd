"""What random failures cost a stream in packets, against D x P x ROR (Gabrielyan 2007, eq. 21 and 22); pure numpy.

Everything is counted in whole blocks: a block's *excess* is what was sent of it beyond N at rest. A state of the cables
(which of them are broken) lasts from one failure's beginning or end to the next. *Settled* blocks
(``testbed.stream.prediction.sent_redundancy``) are what the formula speaks of.
The excess of all others, less what the formula asks for in their time, is the *transient*: late parity before the
answer, N still raised after a failure's end.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from testbed.faults.schedules import cables_of
from testbed.stream.measurements import BoolArray, FloatArray, IntArray, StreamMeasurements
from testbed.stream.plan import StreamPlan
from testbed.stream.prediction.active_faults import epochs
from testbed.stream.prediction.expected_redundancy import StateCosts
from testbed.stream.prediction.failure_candidates import cable_name
from testbed.stream.prediction.sent_redundancy import States, settled_blocks


@dataclass(frozen=True, kw_only=True)
class Pooled:
    """Settled blocks of alike states. ``time_s``: how long such states lasted; ``measured`` and ``predicted``: mean
    excess of a block."""

    name: str
    time_s: float
    blocks: int
    measured: float
    predicted: float


@dataclass(frozen=True, kw_only=True)
class FailureCosts:
    """Packets sent beyond rest, and what they were sent for. All but the last four lines are numbers of packets.

    ``total``: everything beyond N at rest. ``formula``: eq. 22, every failure for as long as it lasted, as if by
    itself. ``states``: the same where failures that overlap lose the union of their labels. ``settled`` and
    ``settled_predicted``: of settled blocks. ``before``: transient while something was broken, less what the formula
    asks for in that time. ``after``: transient with nothing broken. ``late``: of the total, late parity.
    ``block_packets``: N at rest; ``blocks``: all of them. ``redundancy``: mean over time of what was sent over rest,
    less one, the transient left out; ``redundancy_states``: predicted. ``by_down``: by how many cables were broken;
    ``by_cable``: of each, while it alone was. Times beyond reach (``beyond_s``: no N helps, or no report gets back to
    ask for it) count for nothing.
    """

    total: float
    formula: float
    states: float
    settled: float
    settled_predicted: float
    before: float
    after: float
    late: float
    block_packets: int
    blocks: int
    failures: int
    failing_s: float
    overlapping_s: float
    beyond_s: float
    redundancy: float
    redundancy_states: float
    undecodable_settled: int
    undecodable: int
    by_down: tuple[Pooled, ...]
    by_cable: tuple[Pooled, ...]


class _States(NamedTuple):
    """Shape (states,) each: when they begin and end, how many cables are broken, N less N at rest (nan beyond reach),
    the fraction of labels lost, and which cables."""

    start_s: FloatArray
    stop_s: FloatArray
    down: IntArray
    extra: FloatArray
    loss: FloatArray
    names: list[str]

    @property
    def lasts_s(self) -> FloatArray:
        return self.stop_s - self.start_s


class _Blocks(NamedTuple):
    """Shape (blocks,) each: the state in which it began, packets beyond N at rest, how many of them the state asks for
    (0 beyond reach), late parity, and whether it is settled."""

    state: IntArray
    excess: FloatArray
    required: FloatArray
    late: FloatArray
    settled: BoolArray


def failure_costs(plan: StreamPlan, run: StreamMeasurements) -> FailureCosts:
    """For a plan whose routes do not change and whose faults cut their links. Cost: a few passes over the packet
    log."""
    costs = StateCosts(plan)
    states, base = _states(plan, run, costs), costs.base
    blocks = _blocks(plan, run, states, base)
    per_s = plan.stream.rate_pps / plan.stream.source_packets
    requested, reach = np.nan_to_num(states.extra), ~np.isnan(states.extra)
    inside, settled, busy = reach[blocks.state], blocks.settled, states.down[blocks.state] > 0
    return FailureCosts(
        total=float(blocks.excess[inside].sum()),
        formula=_each_alone(run, costs) * per_s,
        states=float((states.lasts_s * requested).sum()) * per_s,
        settled=float(blocks.excess[settled].sum()),
        settled_predicted=float(blocks.required[settled].sum()),
        before=float((blocks.excess - blocks.required)[inside & ~settled & busy].sum()),
        after=float(blocks.excess[inside & ~settled & ~busy].sum()),
        late=float(blocks.late[inside].sum()),
        block_packets=base,
        blocks=len(blocks.state),
        failures=len(run.faults),
        failing_s=float(states.lasts_s[states.down > 0].sum()),
        overlapping_s=float(states.lasts_s[states.down > 1].sum()),
        beyond_s=float(states.lasts_s[~reach].sum()),
        redundancy=float((states.lasts_s * _means(states, blocks))[reach].sum()) / base / plan.duration_s,
        redundancy_states=float((states.lasts_s * requested).sum()) / base / plan.duration_s,
        undecodable_settled=int((settled & run.never_complete).sum()),
        undecodable=int(run.never_complete.sum()),
        by_down=_pooled([str(down) for down in states.down], states, blocks),
        by_cable=_pooled(
            [name if down == 1 else "" for down, name in zip(states.down, states.names, strict=True)], states, blocks
        ),
    )


def _each_alone(run: StreamMeasurements, costs: StateCosts) -> float:
    """Packets a block times seconds that the failures call for, each as if alone; those of cables beyond reach left
    out."""
    extra = np.nan_to_num(costs.block_sizes(costs.singles()) - costs.base)
    column = {link: k for k, link in enumerate(costs.cables)}
    cables = [(times, cables_of([times.fault.link])[0]) for times in run.faults]
    return sum((times.stop_s - times.start_s) * float(extra[column[link]]) for times, link in cables if link in column)


def _blocks(plan: StreamPlan, run: StreamMeasurements, states: _States, base: int) -> _Blocks:
    timed = States(states.start_s, states.stop_s, states.extra + base, states.loss)
    state, settled = timed.of_blocks(run), settled_blocks(plan, run, timed)
    counts, begun = run.packets_of_block.astype(np.float64), run.size_begun.astype(np.float64)
    required = np.nan_to_num(states.extra)[state]
    return _Blocks(state, counts - base, required, np.maximum(0.0, counts - begun), settled)


def _states(plan: StreamPlan, run: StreamMeasurements, costs: StateCosts) -> _States:
    found = epochs(plan, run.faults, ())
    column = {link: k for k, link in enumerate(costs.cables)}
    broken: BoolArray = np.zeros((len(found), len(column)), dtype=np.bool_)
    for number, epoch in enumerate(found):
        for link in cables_of(plan.network.links[i].id for i, _ in epoch.broken):
            if link in column:
                broken[number, column[link]] = True
    return _States(
        np.array([epoch.start_s for epoch in found]),
        np.array([epoch.stop_s for epoch in found]),
        broken.sum(axis=1),
        costs.block_sizes(broken) - costs.base,
        costs.losses(broken),
        ["+".join(cable_name(costs.cables[k]) for k in np.flatnonzero(row)) for row in broken],
    )


def _means(states: _States, blocks: _Blocks) -> FloatArray:
    """Shape (states,): mean excess of a block in each, by its own settled blocks; of states too short to have any, what
    they call for times the share of what they called for that all settled blocks had."""
    settled, count = blocks.settled, len(states.down)
    own = np.bincount(blocks.state[settled], minlength=count)
    sums = np.bincount(blocks.state[settled], weights=blocks.excess[settled], minlength=count)
    share = blocks.excess[settled].sum() / max(1.0, blocks.required[settled].sum())
    return np.where(own > 0, sums / np.maximum(1, own), np.nan_to_num(states.extra) * share)


def _pooled(names: list[str], states: _States, blocks: _Blocks) -> tuple[Pooled, ...]:
    """Settled blocks by the name of their state, in the order of the names; nameless states are left out."""
    label, found = np.array(names), []
    for name in sorted(set(names) - {""}):
        own = label == name
        mine = blocks.settled & own[blocks.state]
        if mine.any():
            found.append(
                Pooled(
                    name=name,
                    time_s=round(float(states.lasts_s[own].sum()), 3),
                    blocks=int(mine.sum()),
                    measured=float(blocks.excess[mine].mean()),
                    predicted=float(blocks.required[mine].mean()),
                )
            )
    return tuple(found)
