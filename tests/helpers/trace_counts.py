"""Searches for the root causes of a failure table that give a document's numbers of failures.

A document may count failures without stating its rule. Either some choice of causes gives its
numbers, or none does.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

CAUSE_COLUMNS = ("Facilities", "Hardware", "Human Error", "Network", "Undetermined", "Software")
"""The columns of the LANL table (LA-UR-05-7318) that name a root cause; a row has one of them."""
Cause = tuple[str, str]


def count_causes(
    lines: Iterable[str], systems: Sequence[str], *, words: Sequence[str] = ()
) -> dict[Cause, list[int]]:
    """Rows of the LANL table by (column, text of the cause), for each of the systems.

    ``words``: only causes in whose column or text one of them occurs, whatever the case; none: all causes.
    """
    counted: Counter[tuple[Cause, str]] = Counter()
    for row in csv.DictReader(lines):
        for column in CAUSE_COLUMNS:
            text = (row.get(column) or "").strip()
            said = f"{column} {text}".lower()
            if text and (not words or any(word in said for word in words)):
                counted[(column, text), (row["System"] or "").strip()] += 1
    causes = sorted({cause for cause, system in counted if system in systems})
    return {cause: [counted[cause, system] for system in systems] for cause in causes}


def choose_causes(
    counts: Mapping[Cause, Sequence[int]], wanted: Sequence[int]
) -> list[Cause] | None:
    """A choice of causes whose rows are exactly as many as ``wanted`` on every system; None where there is none.

    Exact: every reachable sum that exceeds ``wanted`` on no system is kept, at most the product of ``wanted`` plus one
    of them. A cause counts on all systems or on none, as a rule that is applied to all of them would have it.
    """
    start = tuple(0 for _ in wanted)
    reached: dict[tuple[int, ...], list[Cause]] = {start: []}
    for cause, rows in counts.items():
        if not any(rows):
            continue
        for sums, chosen in list(reached.items()):
            more = tuple(a + b for a, b in zip(sums, rows, strict=True))
            if more not in reached and all(a <= b for a, b in zip(more, wanted, strict=True)):
                reached[more] = [*chosen, cause]
    return reached.get(tuple(wanted))
