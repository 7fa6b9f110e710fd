"""Search for full simultaneities and full teams by splitting categories.

A simultaneity is a set of transfers of which no two share a link. It is full if no transfer can be
added. A category is the set of all simultaneities that contain certain transfers (the includer) and
exclude others (the excluder). The other transfers, which do not share a link with the includer, are
the depot. A category is split in two by a transfer of the depot (fission), which one half includes
and the other excludes. In this way, each full simultaneity is found exactly once. Categories are
counted.

A full team is a full simultaneity that uses every bottleneck. Teams are searched in two steps:
first among the transfers over bottlenecks (the skeleton), then each result is completed with the
other transfers.

Source: Gabrielyan 2007, sections 3.5 (includer, depot, excluder; blank and idle categories) and 3.6
(Table 1), equation 4.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from testbed.errors import InputError

# ``CategoryCount.expired`` is called once for this number of categories. It must be a power of two.
_CATEGORIES_PER_CLOCK_CALL = 256


class OutOfTimeError(Exception):
    """The time limit or the limit on categories was reached before the search ended."""


@dataclass(kw_only=True)
class CategoryCount:
    """Counts categories, and ends the search at a limit.

    Attributes:
        categories: Number of categories that were traversed: the size of the search space
            (Gabrielyan 2007, section 3.6.3).
        dropped: Number of categories that were recognised as blank or idle, and not traversed.
        most: Limit on the sum of both, or None.
        expired: Returns whether the time limit has passed, or None.
    """

    categories: int = 0
    dropped: int = 0
    most: int | None = None
    expired: Callable[[], bool] | None = None

    def add(self, dropped: bool) -> None:
        """Count a category.

        Args:
            dropped: Whether it was dropped; otherwise it was traversed.

        Raises:
            OutOfTimeError: A limit was reached.
        """
        if dropped:
            self.dropped += 1
        else:
            self.categories += 1
        total = self.categories + self.dropped
        if self.most is not None and total > self.most:
            raise OutOfTimeError(f"{total} categories")
        if (
            self.expired is not None
            and total & (_CATEGORIES_PER_CLOCK_CALL - 1) == 0
            and self.expired()
        ):
            raise OutOfTimeError("time limit")


@dataclass(frozen=True, kw_only=True)
class Conflicts:
    """A traffic as sets of bits: bit i of a set stands for transfer i.

    Attributes:
        transfers: Number of transfers.
        users: Set of the transfers over each link.
        conflicting: Set of the transfers that share a link with each transfer, including itself.
        links_of: The links of each transfer, in ascending order.
    """

    transfers: int
    users: tuple[int, ...]
    conflicting: tuple[int, ...]
    links_of: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, paths: Sequence[Sequence[int]]) -> "Conflicts":
        """Return the conflicts of a traffic, by O(total path length) operations on sets.

        Args:
            paths: The links of each transfer, numbered from 0.

        Raises:
            InputError: A transfer has no link.
        """
        links = 1 + max((max(path, default=-1) for path in paths), default=-1)
        users = [0] * links
        for i, path in enumerate(paths):
            if not path:
                raise InputError(f"transfer {i} uses no link; name at least one")
            for link in path:
                users[link] |= 1 << i
        conflicting = []
        links_of = []
        for path in paths:
            conflicting.append(reduce(or_, (users[link] for link in path)))
            links_of.append(tuple(sorted(set(path))))
        return cls(
            transfers=len(paths),
            users=tuple(users),
            conflicting=tuple(conflicting),
            links_of=tuple(links_of),
        )

    @property
    def everything(self) -> int:
        """The set of all transfers."""
        return (1 << self.transfers) - 1

    def bottlenecks(self, subtraffic: int) -> tuple[int, tuple[int, ...]]:
        """Return the duration of a set of transfers, and its bottleneck links in ascending order.

        Source: Gabrielyan 2007, equations 1 and 2.
        """
        loads = [(users & subtraffic).bit_count() for users in self.users]
        duration = max(loads, default=0)
        if duration == 0:
            return 0, ()
        return duration, tuple(link for link, load in enumerate(loads) if load == duration)

    def skeleton(self, subtraffic: int, required: Sequence[int]) -> int:
        """Return the transfers that use a required link (Gabrielyan 2007, equation 8).

        Args:
            subtraffic: Set of transfers.
            required: The required links.
        """
        return reduce(or_, (self.users[link] for link in required), 0) & subtraffic


@dataclass(frozen=True, kw_only=True)
class Category:
    """The simultaneities that contain the includer and nothing of the excluder.

    Attributes:
        includer: Set of the transfers that all of them contain.
        depot: Set of the transfers that are not decided yet.
        excluder: Set of the transfers that none of them contains.
    """

    includer: int
    depot: int
    excluder: int


# A function that returns the transfer of the (not empty) depot by which a category is split.
Choice = Callable[[Category], int]


def lowest_transfer(category: Category) -> int:
    """Return the first transfer of the depot.

    Any transfer will do (Gabrielyan 2007, section 3.5.2), so the order of the traffic decides.
    """
    return (category.depot & -category.depot).bit_length() - 1


@dataclass(frozen=True, kw_only=True)
class TeamSearch:
    """The optimisations of a search for full teams.

    Without ``blank``, ``idle`` and ``skeleton`` the same teams are found, but later.

    Attributes:
        blank: Drop categories whose excluder has a transfer that congests with no transfer of the
            depot (Gabrielyan 2007, section 3.5.4).
        idle: Drop categories whose includer and depot together miss a required link (section
            3.5.5).
        skeleton: Search the transfers over required links first (section 3.6.2).
        full: Find full simultaneities only. Otherwise all are found, and no category is blank.
        choose: Returns the transfer by which a category is split.
    """

    blank: bool = True
    idle: bool = True
    skeleton: bool = True
    full: bool = True
    choose: Choice = lowest_transfer


# The searches that Gabrielyan 2007 compares in section 3.6.3: each adds one optimisation.
NAIVE = TeamSearch(blank=False, idle=False, skeleton=False)
BLANK = TeamSearch(idle=False, skeleton=False)
IDLE = TeamSearch(skeleton=False)
SKELETON = TeamSearch()


def full_simultaneities(
    conflicts: Conflicts,
    category: Category,
    count: CategoryCount,
    *,
    required: Sequence[int] = (),
    search: TeamSearch = SKELETON,
) -> Iterator[int]:
    """Yield the full simultaneities of a category as sets, depth first.

    This is a hot loop; it examines up to some hundred thousand categories per second.

    Args:
        conflicts: The traffic.
        category: The category.
        count: Counter of categories.
        required: Links that every simultaneity must use.
        search: The optimisations.

    Raises:
        OutOfTimeError: A limit of ``count`` was reached.
    """
    needs = tuple(conflicts.users[link] for link in required)
    conflicting = conflicts.conflicting
    drop_blank = search.blank and search.full
    waiting = [category]
    while waiting:
        current = waiting.pop()
        reach = current.includer | current.depot
        dropped = search.idle and any(not need & reach for need in needs)
        dropped = dropped or (drop_blank and _is_blank(current, conflicting))
        count.add(dropped)
        if dropped:
            continue
        if not current.depot:
            is_full = not (search.full and current.excluder)
            if is_full and all(need & current.includer for need in needs):
                yield current.includer
            continue
        transfer = search.choose(current)
        bit = 1 << transfer
        compatible = ~conflicting[transfer]
        without = Category(
            includer=current.includer,
            depot=current.depot & ~bit,
            excluder=current.excluder | bit,
        )
        including = Category(
            includer=current.includer | bit,
            depot=current.depot & compatible,
            excluder=current.excluder & compatible,
        )
        waiting.append(without)
        waiting.append(including)


def _is_blank(category: Category, conflicting: Sequence[int]) -> bool:
    """Return whether a transfer of the excluder congests with no transfer of the depot."""
    remaining = category.excluder
    while remaining:
        lowest = remaining & -remaining
        if not conflicting[lowest.bit_length() - 1] & category.depot:
            return True
        remaining ^= lowest
    return False


def transfers_of(transfers: int) -> tuple[int, ...]:
    """Return the numbers of the transfers in a set, in ascending order."""
    numbers = []
    remaining = transfers
    while remaining:
        lowest = remaining & -remaining
        numbers.append(lowest.bit_length() - 1)
        remaining ^= lowest
    return tuple(numbers)


def full_teams(
    conflicts: Conflicts, subtraffic: int, count: CategoryCount, *, search: TeamSearch = SKELETON
) -> Iterator[int]:
    """Yield the full teams of a set of transfers, each once; a team uses all bottlenecks.

    Args:
        conflicts: The traffic.
        subtraffic: Set of transfers.
        count: Counter of categories.
        search: The optimisations.

    Raises:
        OutOfTimeError: A limit of ``count`` was reached.
    """
    _, required = conflicts.bottlenecks(subtraffic)
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
    """Yield the simultaneities of a set of transfers that use the required links, each once.

    Args:
        conflicts: The traffic.
        subtraffic: Set of transfers.
        count: Counter of categories.
        required: Links that every simultaneity must use.
        including: Set of transfers that every simultaneity must contain.
        search: The optimisations; if its ``full`` is false, all simultaneities are found, not only
            full ones.

    Raises:
        OutOfTimeError: A limit of ``count`` was reached.
    """
    if not search.skeleton:
        category = _category(conflicts, including, subtraffic)
        yield from full_simultaneities(conflicts, category, count, required=required, search=search)
        return
    skeleton = conflicts.skeleton(subtraffic, required)
    category = _category(conflicts, including, skeleton)
    partial_teams = full_simultaneities(
        conflicts, category, count, required=required, search=search
    )
    for partial_team in partial_teams:
        completion = _category(conflicts, partial_team, subtraffic & ~skeleton)
        yield from full_simultaneities(conflicts, completion, count, search=search)


def _category(conflicts: Conflicts, includer: int, transfers: int) -> Category:
    """Return the category of an includer, with an empty excluder.

    Args:
        conflicts: The traffic.
        includer: Set of transfers without congestion.
        transfers: Set of transfers. Its depot has those that do not congest with the includer.
    """
    depot = transfers
    for i in transfers_of(includer):
        depot &= ~conflicts.conflicting[i]
    return Category(includer=includer, depot=depot, excluder=0)


def search_space(paths: Sequence[Sequence[int]], search: TeamSearch) -> tuple[int, int]:
    """Return the size of the search space, and the number of full teams of a traffic.

    Source: Gabrielyan 2007, section 3.6.3, Figure 34.

    Args:
        paths: The links of each transfer, numbered from 0.
        search: The optimisations.
    """
    conflicts = Conflicts.of(paths)
    count = CategoryCount()
    teams = len(list(full_teams(conflicts, conflicts.everything, count, search=search)))
    return count.categories, teams
