"""Full simultaneities by fission of categories: each is found once and only once, and the categories met are counted.

Full teams are full simultaneities that use every bottleneck, found over the skeleton first and then completed.

Source: Gabrielyan 2007, sections 3.5 (includer, depot, excluder; blank and idle categories) and 3.6 (Table 1), eq. 4.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from testbed.errors import InputError


class OutOfTimeError(Exception):
    """The deadline passed, or the categories allowed were used up, before the search ended."""


@dataclass(kw_only=True)
class CategoryCount:
    """Categories traversed so far, the size of the search space (Gabrielyan 2007, 3.6.3); raises OutOfTimeError when
    its allowance ends.

    Those recognised as blank or idle are not traversed but ``dropped``. ``most`` bounds both together; ``expired`` is
    asked every 256 of them.
    """

    categories: int = 0
    dropped: int = 0
    most: int | None = None
    expired: Callable[[], bool] | None = None

    def transfers_conflict(self, dropped: bool) -> None:
        """One category more, dropped or traversed."""
        self.dropped += dropped
        self.categories += not dropped
        met = self.categories + self.dropped
        if self.most is not None and met > self.most:
            raise OutOfTimeError(f"{met} categories")
        if self.expired is not None and met & 255 == 0 and self.expired():
            raise OutOfTimeError("time limit")


@dataclass(frozen=True, kw_only=True)
class Conflicts:
    """A traffic as sets of bits: bit i of a set stands for transfer i.

    ``users[l]`` are the transfers that use link l; ``rivals[i]`` those that share a link with transfer i, itself
    included.
    """

    transfers: int
    users: tuple[int, ...]
    conflicting: tuple[int, ...]
    links_of: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, paths: Sequence[Sequence[int]]) -> "Conflicts":
        """``paths[i]``: the links (numbers from 0) of transfer i. O(total path length) operations on sets."""
        users = [0] * (1 + max((link for path in paths for link in path), default=-1))
        for i, path in enumerate(paths):
            if not path:
                raise InputError(f"transfer {i} uses no link; name at least one")
            for link in path:
                users[link] |= 1 << i
        rivals = [reduce(or_, (users[link] for link in path)) for path in paths]
        links_of = tuple(tuple(sorted(set(path))) for path in paths)
        return cls(
            transfers=len(paths), users=tuple(users), conflicting=tuple(rivals), links_of=links_of
        )

    @property
    def everything(self) -> int:
        return (1 << self.transfers) - 1

    def bottlenecks(self, subtraffic: int) -> tuple[int, tuple[int, ...]]:
        """Duration of the subtraffic and its bottleneck links, ascending (Gabrielyan 2007, eq. 1 and 2)."""
        loads = [(users & subtraffic).bit_count() for users in self.users]
        duration = max(loads, default=0)
        return duration, tuple(link for link, load in enumerate(loads) if load == duration and load)

    def skeleton(self, subtraffic: int, required: Sequence[int]) -> int:
        """The transfers of the subtraffic that use a required link (Gabrielyan 2007, eq. 8)."""
        return reduce(or_, (self.users[link] for link in required), 0) & subtraffic


@dataclass(frozen=True, kw_only=True)
class Category:
    """(includer, depot, excluder): covers the full simultaneities that hold the includer and nothing of the
    excluder."""

    includer: int
    depot: int
    excluder: int


Choice = Callable[[Category], int]
"""The transfer of the (not empty) depot by which a category is split."""


def lowest_transfer(category: Category) -> int:
    """The first transfer of the depot: any will do (Gabrielyan 2007, 3.5.2), so the order of the traffic decides."""
    return (category.depot & -category.depot).bit_length() - 1


@dataclass(frozen=True, kw_only=True)
class TeamSearch:
    """How full teams are searched: optimisations that can be switched off, and what is requested.

    ``blank`` drops categories whose excluder has a transfer that no transfer of the depot congests with (Gabrielyan
    2007, 3.5.4); ``idle`` those whose includer and depot together miss a required link (3.5.5); ``skeleton`` searches
    the transfers over required links first (3.6.2). Without them the same sets come, later. ``full``: full
    simultaneities only, or all (then no category is blank). ``choose``: the transfer by which a category is split.
    """

    blank: bool = True
    idle: bool = True
    skeleton: bool = True
    full: bool = True
    choose: Choice = lowest_transfer


def full_simultaneities(
    conflicts: Conflicts,
    category: Category,
    count: CategoryCount,
    *,
    required: Sequence[int] = (),
    search: TeamSearch = TeamSearch(),
) -> Iterator[int]:
    """The full simultaneities that the category covers and that use all ``required`` links, as sets; depth first.

    Raises OutOfTimeError through ``count``.
    """
    needs = tuple(conflicts.users[link] for link in required)
    rivals = conflicts.conflicting
    waiting = [category]
    while waiting:
        here = waiting.pop()
        reach = here.includer | here.depot
        idle = search.idle and any(not need & reach for need in needs)
        dropped = idle or (search.blank and search.full and _is_blank(here, rivals))
        count.transfers_conflict(dropped)
        if dropped:
            continue
        if not here.depot:
            if not (search.full and here.excluder) and all(need & here.includer for need in needs):
                yield here.includer
            continue
        x = search.choose(here)
        bit, free = 1 << x, ~rivals[x]
        waiting.append(
            Category(includer=here.includer, depot=here.depot & ~bit, excluder=here.excluder | bit)
        )
        waiting.append(
            Category(
                includer=here.includer | bit, depot=here.depot & free, excluder=here.excluder & free
            )
        )


def _is_blank(category: Category, rivals: Sequence[int]) -> bool:
    left = category.excluder
    while left:
        lowest = left & -left
        if not rivals[lowest.bit_length() - 1] & category.depot:
            return True
        left ^= lowest
    return False


def transfers_of(chosen: int) -> tuple[int, ...]:
    """The transfers of a set, ascending."""
    found = []
    while chosen:
        lowest = chosen & -chosen
        found.append(lowest.bit_length() - 1)
        chosen ^= lowest
    return tuple(found)


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
