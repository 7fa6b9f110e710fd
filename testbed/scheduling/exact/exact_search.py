"""The thesis' exact search: time frame by time frame a full team of what is left, and back where that leads nowhere.

It finds a liquid schedule, or proves that none exists; with more frames than the duration it finds a shortest schedule.
Source: Gabrielyan 2007, section 3.7 and Appendices D to F.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from testbed.errors import InputError
from testbed.scheduling.exact import full_simultaneities as fs


@dataclass(frozen=True, kw_only=True)
class ExactOptions:
    """The optimisations of the search, each of which can be switched off without changing what is found to exist.

    From the thesis: ``teams`` (how full teams are found), ``reduced`` (a frame is a team of what is left, not only of
    the whole: 3.7.3), ``full`` (it is a full one: 3.7.4). Ours: ``anchored`` (the frame holds one given transfer, since
    frames have no order), ``remembered`` (what was searched in vain is not searched again), ``scarce_first``
    (categories are split by a transfer of the required link with the fewest candidates), ``restarts`` (a search that is
    stuck begins again elsewhere; needs ``scarce_first``).
    """

    teams: fs.TeamSearch = fs.SKELETON
    reduced: bool = True
    full: bool = True
    anchored: bool = True
    remembered: bool = True
    scarce_first: bool = True
    restarts: bool = True


@dataclass(frozen=True, kw_only=True)
class ExactResult:
    """``frames``: transfer numbers a frame, or None. ``lower_bound``: no schedule is shorter, proved. ``optimal`` where
    the frames are as few; ``exhausted``: lengths for which the whole tree was searched in vain. ``categories``: search
    space."""

    duration: int
    frames: tuple[tuple[int, ...], ...] | None
    lower_bound: int
    exhausted: tuple[int, ...] = ()
    categories: int = 0

    @property
    def optimal(self) -> bool:
        return self.frames is not None and len(self.frames) == self.lower_bound

    @property
    def proved(self) -> str:
        """ "liquid", "no-liquid-schedule" (the whole tree was searched) or "unknown"."""
        if self.frames is not None and len(self.frames) == self.duration:
            return "liquid"
        return "no-liquid-schedule" if self.lower_bound > self.duration else "unknown"


def search_exactly(
    paths: Sequence[Sequence[int]],
    *,
    options: ExactOptions | None = None,
    seed: int = 1,
    most_categories: int | None = None,
    expired: Callable[[], bool] | None = None,
) -> ExactResult:
    """The shortest schedule of transfers over links (``paths[i]``: link numbers of transfer i), or how far the proof
    came.

    Lengths are tried from the duration up, each one more only after the whole tree of the one before was searched in
    vain, at most to the number of transfers. A schedule of T frames has links with T transfers left at every step, as
    many as frames left: the frame must use them all (for T = duration they are the bottlenecks and the frame a team),
    and it may be taken full, since moving transfers to it from later frames changes nothing else (Appendix E).
    Exponential in the worst case: ``most_categories`` and ``expired`` end it.
    """
    chosen = options or ExactOptions()
    if not paths:
        raise InputError("traffic: no transfers; name at least one")
    order = _heavy_first(paths)
    conflicts = fs.Conflicts.of([paths[i] for i in order])
    duration = conflicts.bottlenecks(conflicts.everything)[0]
    count = fs.CategoryCount(most=most_categories, expired=expired)
    exhausted: list[int] = []
    frames, length = None, duration
    try:
        while frames is None:
            chance = random.Random(f"{seed} {length}")
            frames = _Tree(conflicts, chosen, count, chance, length).grow()
            if frames is None:
                exhausted.append(length)
                length += 1
    except fs.OutOfTimeError:
        pass
    return ExactResult(
        duration=duration,
        frames=None
        if frames is None
        else tuple(tuple(sorted(order[i] for i in fs.transfers_of(f))) for f in frames),
        lower_bound=length,
        exhausted=tuple(exhausted),
        categories=count.categories,
    )


def _heavy_first(paths: Sequence[Sequence[int]]) -> list[int]:
    """The transfers by the sum of their links' loads, heaviest first; the order in which they are taken from a
    depot."""
    loads = Counter(link for path in paths for link in path)
    return sorted(range(len(paths)), key=lambda i: (-sum(loads[link] for link in paths[i]), i))


class _StuckError(Exception):
    """This attempt has used its share of categories."""


@dataclass
class _Tree:
    """The construction tree (Gabrielyan 2007, Figure 38) for schedules of ``length`` frames."""

    conflicts: fs.Conflicts
    options: ExactOptions
    count: fs.CategoryCount
    chance: random.Random
    length: int
    dead: set[tuple[int, int]] = field(default_factory=set)
    stop_at: float = float("inf")
    attempts: int = 0

    def grow(self) -> tuple[int, ...] | None:
        """The frames of a schedule of that length, or None: there is none. Raises OutOfTimeError."""
        allowance = 20 * self.conflicts.transfers + 1000
        while True:
            self.stop_at = self.count.categories + self.count.dropped + allowance
            try:
                return self._descend()
            except _StuckError:
                allowance = allowance * 5 // 4
                self.attempts += 1

    def _descend(self) -> tuple[int, ...] | None:
        """Depth first, with a stack of its own: the depth is the number of frames, which may be in the thousands."""
        path: list[int] = []
        lefts = [self.conflicts.everything]
        choices = [self._frames(lefts[0], self.length)]
        while choices:
            frame = next(choices[-1], None)
            if frame is None:
                choices.pop()
                left = lefts.pop()
                if self.options.remembered:
                    self.dead.add((left, self.length - len(path)))
                path[-1:] = []
                continue
            rest, frames_left = lefts[-1] & ~frame, self.length - len(path) - 1
            if not rest:
                return (*path, frame)
            if not frames_left or (rest, frames_left) in self.dead:
                continue
            path.append(frame)
            lefts.append(rest)
            choices.append(self._frames(rest, frames_left))
        return None

    def _frames(self, left: int, frames_left: int) -> Iterator[int]:
        """Candidates for the next frame (the choice function of eq. 11 to 13)."""
        options, conflicts = self.options, self.conflicts
        loads = [(users & left).bit_count() for users in conflicts.users]
        if options.reduced:
            if max(loads) > frames_left:
                return
            required = [link for link, load in enumerate(loads) if load == frames_left]
        else:
            whole = [users.bit_count() for users in conflicts.users]
            required = [link for link, load in enumerate(whole) if load == self.length]
        anchor = self._anchor(left, loads, required) if options.anchored else 0
        choose = self._choice(required) if options.scarce_first else fs.lowest_transfer
        search = replace(options.teams, choose=choose, full=options.full)
        yield from fs.teams_of(
            conflicts, left, self.count, required=required, including=anchor, search=search
        )

    def _anchor(self, left: int, loads: Sequence[int], required: Sequence[int]) -> int:
        """The set of the one transfer that the frame must hold: the one whose links are the most loaded."""
        among = self.conflicts.skeleton(left, required) or left
        links_of = self.conflicts.links_of
        return 1 << max(
            fs.transfers_of(among), key=lambda i: (sum(loads[link] for link in links_of[i]), -i)
        )

    def _choice(self, required: Sequence[int]) -> fs.Choice:
        users, chance, at_random = (
            self.conflicts.users,
            self.chance,
            self.options.restarts and self.attempts > 0,
        )
        needs = [users[link] for link in required]
        size = self.conflicts.transfers

        def choose(category: fs.Category) -> int:
            if self.options.restarts and self.count.categories + self.count.dropped > self.stop_at:
                raise _StuckError
            among, fewest = category.depot, size + 1
            for need in needs:
                if not need & category.includer:
                    candidates = need & category.depot
                    number = candidates.bit_count()
                    if 0 < number < fewest:
                        among, fewest = candidates, number
            if at_random:
                cut = chance.randrange(size)
                among = (among >> cut << cut) or among
            return (among & -among).bit_length() - 1

        return choose
