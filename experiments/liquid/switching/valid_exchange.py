"""A bulk exchange on switches, again where the machine could not keep up."""

from typing import TYPE_CHECKING

from testbed.errors import InvalidRunError
from testbed.model.verdict import repeated
from testbed.model.workload import Judgement

if TYPE_CHECKING:
    from testbed.bulk.emulated.fabric import EmulatedBulkFabric
    from testbed.bulk.plan import BulkPlan
ATTEMPTS = 3


def valid_exchange(plan: "BulkPlan", fabric: "EmulatedBulkFabric") -> tuple[Judgement, int]:
    """Its judgement, and how many runs it took. Raises InvalidRunError where the machine did not keep up in any of
    three."""
    from testbed.bulk.judgement import judge_bulk

    tried: list[str] = []

    def once() -> Judgement:
        judged = judge_bulk(plan, fabric.run(plan))
        if judged.verdict.invalid is not None:
            raise InvalidRunError(judged.verdict.invalid)
        return judged

    return repeated(once, lambda _: None, ATTEMPTS - 1, tried.append), 1 + len(tried)
