"""Full teams: full simultaneities that use every bottleneck, found over the skeleton first and then completed.

Source: Gabrielyan 2007, section 3.6 (Table 1) and eq. 4.
"""

from collections.abc import Iterator, Sequence

from testbed.scheduling.exact.full_simultaneities import (
    Category,
    CategoryCount,
    Conflicts,
    TeamSearch,
    full_simultaneities,
)

NAIVE = TeamSearch(blank=False, idle=False, skeleton=False)
BLANK = TeamSearch(idle=False, skeleton=False)
IDLE = TeamSearch(skeleton=False)
SKELETON = TeamSearch()


def full_teams(
    conflicts: Conflicts, subtraffic: int, count: CategoryCount, *, search: TeamSearch = SKELETON
) -> Iterator[int]:
    """The full teams of a subtraffic (a set of transfers), each once: they use all its bottlenecks.

    Raises OutOfTimeError through ``count``.
    """
    required = conflicts.bottlenecks(subtraffic)[1]
    return teams_of(conflicts, subtraffic, count, required=required, search=search)


def teams_of(
    conflicts: Conflicts,
    subtraffic: int,
    count: CategoryCount,
    *,
    required: Sequence[int],
    including: int = 0,
    search: TeamSearch = SKELETON,
) -> Iterator[int]:
    """The simultaneities of a subtraffic that use the ``required`` links and contain the simultaneity ``including``.

    Full ones only, or all where ``search.full`` is false; each once. Raises OutOfTimeError through ``count``.
    """
    if not search.skeleton:
        prim = _category(conflicts, including, subtraffic)
        yield from full_simultaneities(conflicts, prim, count, required=required, search=search)
        return
    bones_of = conflicts.skeleton(subtraffic, required)
    bones = _category(conflicts, including, bones_of)
    for team in full_simultaneities(conflicts, bones, count, required=required, search=search):
        rest = _category(conflicts, team, subtraffic & ~bones_of)
        yield from full_simultaneities(conflicts, rest, count, search=search)


def _category(conflicts: Conflicts, includer: int, transfers: int) -> Category:
    """The includer, with all the transfers that do not congest with it in the depot and an empty excluder."""
    left, depot = includer, transfers
    while left:
        lowest = left & -left
        depot &= ~conflicts.conflicting[lowest.bit_length() - 1]
        left ^= lowest
    return Category(includer=includer, depot=depot, excluder=0)


def search_space(paths: Sequence[Sequence[int]], search: TeamSearch) -> tuple[int, int]:
    """(categories met, full teams found) until all full teams of the traffic are known (Gabrielyan 2007, 3.6.3, Figure
    34)."""
    conflicts = Conflicts.of(paths)
    count = CategoryCount()
    teams = sum(1 for _ in full_teams(conflicts, conflicts.everything, count, search=search))
    return count.categories, teams
