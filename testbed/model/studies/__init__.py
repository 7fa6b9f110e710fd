"""Studies: what they measure, and how their points are judged and drawn.

The modules of studies import from this package. A command runs them.
"""

from testbed.model.studies.samples import (
    crossing,
    grouped,
    half_width,
    interval,
    mean_of,
    reader,
    spread,
    sum_of,
)
from testbed.model.studies.study import (
    Figures,
    Points,
    Results,
    Row,
    Rows,
    Study,
    grid,
    parted,
    verdict_of,
    where,
)
from testbed.model.verdict import Check, Claim, Verdict, repeated

__all__ = [
    "Check",
    "Claim",
    "Figures",
    "Points",
    "Results",
    "Row",
    "Rows",
    "Study",
    "Verdict",
    "crossing",
    "grid",
    "grouped",
    "half_width",
    "interval",
    "mean_of",
    "parted",
    "reader",
    "repeated",
    "spread",
    "sum_of",
    "verdict_of",
    "where",
]
