"""Raises the rate of 32 disjoint paths over real switches until the machine no longer keeps up: what ``doctor
--calibrate`` measures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from testbed.bulk.judgement import judge_bulk
from testbed.bulk.workload import bulk_plan
from testbed.errors import InvalidRunError
from testbed.model.machine.capacity import busy_links

NETWORK = "swiss-t1"
PAIRS = tuple((f"t{k}", f"r{k}") for k in range(32))
"""Each pair on one switch: no two share a link, and all send at once."""
STEPS_BPS = (2e6, 5e6, 10e6, 20e6, 40e6, 80e6)
MESSAGE_S = 0.8
"""How long each message takes."""


@dataclass(frozen=True, kw_only=True)
class LoadStep:
    """One rate that was tried: ``link_bps`` over all links together, whether the machine kept up, and if not why."""

    rate_bps: float
    link_bps: float
    carried: bool
    why: str


def load_steps(report: Callable[[LoadStep], None] = lambda _: None) -> Iterator[LoadStep]:
    """The rates one after another, up to the first that the machine does not carry; some ten seconds each, inside the
    sandbox."""
    for rate_bps in STEPS_BPS:
        step = _tried(rate_bps)
        report(step)
        yield step
        if not step.carried:
            return


def _tried(rate_bps: float) -> LoadStep:
    """Circuits for one time frame; what comes out is the verdict of an ordinary run. A rate that fails once is tried
    again."""
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric

    plan = bulk_plan(
        NETWORK, pattern=PAIRS, link_rate_bps=rate_bps, message_bytes=round(rate_bps * MESSAGE_S / 8), inject_packets=0
    )
    link_bps = rate_bps * busy_links([len(t.path) for t in plan.transfers], len(plan.frames))
    why = ""
    for _ in range(2):
        try:
            with EmulatedBulkFabric() as fabric:
                judged = judge_bulk(plan, fabric.run(plan))
        except InvalidRunError as error:
            why = str(error)
            continue
        if judged.verdict.passed:
            return LoadStep(rate_bps=rate_bps, link_bps=link_bps, carried=True, why="")
        why = judged.verdict.invalid or f"{judged.document['ratio']:.2f} of the predicted throughput"
    return LoadStep(rate_bps=rate_bps, link_bps=link_bps, carried=False, why=why)
