"""The exact search of the thesis: frame by frame a full team of the remaining traffic.

When a choice of teams leads nowhere, the search backtracks. It finds a liquid schedule or proves
that none exists, and with more frames than the duration it finds a shortest schedule.

Source: Gabrielyan 2007, section 3.7 and appendices D to F.
"""

import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from testbed.errors import InputError
from testbed.scheduling.exact import full_simultaneities as fs


@dataclass(frozen=True, kw_only=True)
class ExactOptions:
    """The optimisations of the search.

    Each can be switched off; this changes the duration of the search, but not its result. The first
    three are from the thesis.

    Attributes:
        teams: How full teams are found.
        reduced: A frame is a team of the remaining traffic, not only of the complete one (section
            3.7.3).
        full: A frame is a full team (section 3.7.4).
        anchored: The frame must contain one particular transfer, because frames have no order.
        remembered: Remaining traffic that was searched without success is not searched again.
        scarce_first: Split a category by a transfer of the required link with the fewest
            candidates.
        restarts: Restart with other, random choices when the search makes no progress; needs
            ``scarce_first``.
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
    """The result of an exact search.

    Attributes:
        duration: Load of the bottleneck links.
        frames: Numbers of the transfers of each frame, or None if no schedule was found.
        lower_bound: No schedule has fewer frames (proved).
        exhausted: Numbers of frames for which the complete tree was searched without success.
        categories: Size of the search space: number of categories that were examined.
    """

    duration: int
    frames: tuple[tuple[int, ...], ...] | None
    lower_bound: int
    exhausted: tuple[int, ...] = ()
    categories: int = 0

    @property
    def optimal(self) -> bool:
        """True if the schedule has as few frames as the proved bound."""
        return self.frames is not None and len(self.frames) == self.lower_bound

    @property
    def proved(self) -> str:
        """The result as "liquid", "no-liquid-schedule" or "unknown".

        "no-liquid-schedule" means that the complete tree was searched.
        """
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
    """Find a shortest schedule, or as much of the proof as the limits allow.

    Lengths are tried from the duration upwards. The next length is tried only after the complete
    tree of the previous one was searched without success.

    In a schedule of T frames, at every step some links may have as many transfers left as there are
    frames left. The next frame must use all of these links. (For T = duration they are the
    bottlenecks, and the frame is a team.) The frame may be taken as full, because moving transfers
    to it from later frames changes nothing else (appendix E). The worst case is exponential.

    Args:
        paths: Numbers of the links of each transfer.
        options: The optimisations.
        seed: Seed of the restarts.
        most_categories: Number of categories after which the search ends.
        expired: Returns whether the time limit has passed, which ends the search.

    Raises:
        InputError: There are no transfers, or a transfer has no link.
    """
    if not paths:
        raise InputError("traffic: no transfers; name at least one")
    order = _heavy_first(paths)
    conflicts = fs.Conflicts.of([paths[i] for i in order])
    duration, _ = conflicts.bottlenecks(conflicts.everything)
    count = fs.CategoryCount(most=most_categories, expired=expired)
    exhausted: list[int] = []
    frame_sets = None
    length = duration
    try:
        while frame_sets is None:
            rng = random.Random(f"{seed} {length}")
            tree = _Tree(conflicts, options or ExactOptions(), count, rng, length)
            frame_sets = tree.grow()
            if frame_sets is None:
                exhausted.append(length)
                length += 1
    except fs.OutOfTimeError:
        pass  # The result says how far the proof came.
    return ExactResult(
        duration=duration,
        frames=None if frame_sets is None else _frames_of(frame_sets, order),
        lower_bound=length,
        exhausted=tuple(exhausted),
        categories=count.categories,
    )


def _frames_of(frame_sets: Sequence[int], order: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the transfers of each frame by their original numbers.

    Args:
        frame_sets: The frames as sets of bits.
        order: Original number of each transfer of the search.
    """
    frames = []
    for frame_set in frame_sets:
        frames.append(tuple(sorted(order[i] for i in fs.transfers_of(frame_set))))
    return tuple(frames)


def _heavy_first(paths: Sequence[Sequence[int]]) -> list[int]:
    """Return the transfers by the sum of their links' loads, the largest first.

    This is the order in which they are taken from a depot.
    """
    loads: Counter[int] = Counter()
    for path in paths:
        loads.update(path)

    def by_load(i: int) -> tuple[int, int]:
        return -sum(loads[link] for link in paths[i]), i

    return sorted(range(len(paths)), key=by_load)


class _StuckError(Exception):
    """The attempt has used its share of categories."""


@dataclass
class _Tree:
    """The construction tree (Gabrielyan 2007, Figure 38) for schedules of one length.

    Attributes:
        conflicts: The traffic.
        options: The optimisations.
        count: Counter of categories.
        rng: Random generator of the restarts.
        length: Number of frames of the schedules.
        dead: Pairs of remaining traffic and number of remaining frames that have no schedule.
        stop_at: Number of categories at which this attempt ends.
        attempts: Number of earlier attempts.
    """

    conflicts: fs.Conflicts
    options: ExactOptions
    count: fs.CategoryCount
    rng: random.Random
    length: int
    dead: set[tuple[int, int]] = field(default_factory=set)
    stop_at: float = float("inf")
    attempts: int = 0

    def grow(self) -> tuple[int, ...] | None:
        """Return the frames of a schedule as sets, or None if there is none.

        Raises:
            OutOfTimeError: A limit was reached.
        """
        # Attempts become longer, so that the search remains complete.
        allowance = 20 * self.conflicts.transfers + 1000
        while True:
            self.stop_at = self.count.categories + self.count.dropped + allowance
            try:
                return self._descend()
            except _StuckError:
                allowance = allowance * 5 // 4
                self.attempts += 1

    def _descend(self) -> tuple[int, ...] | None:
        """Search depth first.

        The stack is explicit, because the depth is the number of frames, which may be thousands.
        """
        path: list[int] = []
        # Traffic before each frame of the path, and the candidates for the frame.
        remaining = [self.conflicts.everything]
        candidates = [self._frames(remaining[0], self.length)]
        while candidates:
            frame = next(candidates[-1], None)
            if frame is None:
                candidates.pop()
                traffic = remaining.pop()
                if self.options.remembered:
                    self.dead.add((traffic, self.length - len(path)))
                if path:
                    path.pop()
                continue
            traffic = remaining[-1] & ~frame
            frames_left = self.length - len(path) - 1
            if not traffic:
                return (*path, frame)
            if not frames_left or (traffic, frames_left) in self.dead:
                continue
            path.append(frame)
            remaining.append(traffic)
            candidates.append(self._frames(traffic, frames_left))
        return None

    def _frames(self, traffic: int, frames_left: int) -> Iterator[int]:
        """Yield the candidates for the next frame (the choice function of equations 11 to 13).

        Args:
            traffic: The remaining traffic.
            frames_left: Number of frames for it.
        """
        options = self.options
        loads = [(users & traffic).bit_count() for users in self.conflicts.users]
        if options.reduced:
            if max(loads) > frames_left:
                return
            required = [link for link, load in enumerate(loads) if load == frames_left]
        else:
            all_loads = [users.bit_count() for users in self.conflicts.users]
            required = [link for link, load in enumerate(all_loads) if load == self.length]
        anchor = self._anchor(traffic, loads, required) if options.anchored else 0
        choose = self._choice(required) if options.scarce_first else fs.lowest_transfer
        search = replace(options.teams, choose=choose, full=options.full)
        yield from fs.teams_of(
            self.conflicts,
            traffic,
            self.count,
            required=required,
            including=anchor,
            search=search,
        )

    def _anchor(self, traffic: int, loads: Sequence[int], required: Sequence[int]) -> int:
        """Return the set of the one transfer that the frame must contain.

        It is the transfer with the most loaded links, among those over required links.

        Args:
            traffic: The remaining traffic.
            loads: Load of each link.
            required: The links that the frame must use.
        """
        candidates = self.conflicts.skeleton(traffic, required) or traffic
        links_of = self.conflicts.links_of

        def by_load(i: int) -> tuple[int, int]:
            return sum(loads[link] for link in links_of[i]), -i

        return 1 << max(fs.transfers_of(candidates), key=by_load)

    def _choice(self, required: Sequence[int]) -> fs.Choice:
        """Return the function that chooses the transfer by which a category is split.

        It takes a transfer of the required link with the fewest candidates. After a restart, it
        begins at a random transfer.

        Args:
            required: The links that the frame must use.
        """
        needs = [self.conflicts.users[link] for link in required]
        size = self.conflicts.transfers
        at_random = self.options.restarts and self.attempts > 0
        rng = self.rng

        def choose(category: fs.Category) -> int:
            if self.options.restarts and self.count.categories + self.count.dropped > self.stop_at:
                raise _StuckError
            scarcest = category.depot
            fewest = size + 1
            for need in needs:
                if need & category.includer:
                    continue
                candidates = need & category.depot
                number = candidates.bit_count()
                if 0 < number < fewest:
                    scarcest = candidates
                    fewest = number
            if at_random:
                first = rng.randrange(size)
                scarcest = (scarcest >> first << first) or scarcest
            return (scarcest & -scarcest).bit_length() - 1

        return choose
