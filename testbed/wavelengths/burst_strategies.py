"""Ways to empty the buffers of an optical burst switching cloud: liquid schedules, or one burst after another by first
fit.

A strategy is handed the arrivals and asked, slot by slot, what leaves; it holds no buffers and counts nothing.
"""

import functools
import math
import operator
from collections import Counter, defaultdict, deque
from collections.abc import Sequence

from testbed.scheduling.fast.packing import pack


class Reservations:
    """Which wavelengths of each fibre are taken in each slot, as bits.

    ``converting``: a path takes any wavelength on each fibre; else one on all of them.
    """

    def __init__(self, paths: Sequence[Sequence[int]], wavelengths: int, *, converting: bool) -> None:
        self._paths, self._all, self._converting = paths, (1 << wavelengths) - 1, converting
        self._slots: defaultdict[int, dict[int, int]] = defaultdict(dict)

    def forget(self, slot: int) -> None:
        """The slot is over."""
        self._slots.pop(slot, None)

    def reserve(self, pair: int, slot: int, latest: float = math.inf) -> int | None:
        """Reserve the first slot from ``slot`` on, the lowest wavelength in it; None where none up to ``latest`` is
        free."""
        path = self._paths[pair]
        while slot <= latest:
            taken = self._slots[slot]
            masks = [taken.get(link, 0) for link in path]
            if not self._converting:
                masks = [functools.reduce(operator.or_, masks)] * len(path)
            if self._all not in masks:
                for link, mask in zip(path, masks, strict=True):
                    taken[link] = taken.get(link, 0) | (~mask & (mask + 1))
                return slot
            slot += 1
        return None


_CYCLE_STEPS, _ROLLING_STEPS = 1_000, 200
Burst = tuple[int, int]
"""(pair, slot in which it arrived)."""
Paths = Sequence[Sequence[int]]


def fewest_rounds(
    paths: Paths, wavelengths: int, *, converting: bool, seed: int = 1, steps: int = _CYCLE_STEPS
) -> list[list[list[int]]]:
    """Rounds of frames of indices into ``paths``, as few rounds as packing finds from the bound (load over W) upwards.

    A round has W frames of paths that share no link; with conversion one, in which every link has at most W paths. The
    fullest frames come first: any frame may be exchanged for one of another round.
    """
    load = Counter(link for path in paths for link in path)
    count, width = -(-max(load.values()) // wavelengths), 1 if converting else wavelengths
    while (placed := pack(paths, count * width, wavelengths // width, seed=seed, steps=steps)) is None:
        count += 1
    frames: list[list[int]] = [[] for _ in range(count * width)]
    for path, number in enumerate(placed):
        frames[number].append(path)
    frames.sort(key=lambda frame: -len(frame))
    return [frames[k : k + width] for k in range(0, len(frames), width) if frames[k]]


class _Liquid:
    """``cycles``: rounds of each schedule."""

    def __init__(self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, seed: int) -> None:
        self._paths, self._wavelengths, self._converting = paths, wavelengths, converting
        self._known_after, self._seed = known_after, seed
        self._waiting: deque[Burst] = deque()
        self._left: list[Burst] = []
        self._rounds: deque[list[Burst]] = deque()
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        self._waiting.append((pair, slot))
        return True

    def _rounds_left(self, slot: int, steps: int) -> list[list[list[int]]]:
        """Rounds of frames of places in ``_left``, the bursts known by now that no schedule has sent."""
        while self._waiting and self._waiting[0][1] < slot - self._known_after:
            self._left.append(self._waiting.popleft())
        if not self._left:
            return []
        paths, seed = [self._paths[pair] for pair, _ in self._left], self._seed + len(self.cycles)
        rounds = fewest_rounds(paths, self._wavelengths, converting=self._converting, seed=seed, steps=steps)
        self.cycles.append(len(rounds))
        return rounds


class LiquidCycles(_Liquid):
    """Cycles as the thesis has them: the bursts known when a cycle begins are sent in a liquid schedule, then the next
    begins.

    The fullest frames go first; bursts of a pair in the order of their arrival.
    """

    def leaving(self, slot: int) -> Sequence[Burst]:
        if not self._rounds:
            lit = [[i for frame in frames for i in frame] for frames in self._rounds_left(slot, _CYCLE_STEPS)]
            sent = [Counter(self._left[i][0] for i in own) for own in lit]
            self._rounds.extend(_take_oldest(self._left, own) for own in sent)
        return self._rounds.popleft() if self._rounds else ()


class RollingLiquid(_Liquid):
    """A liquid schedule of everything known is computed again in every slot; only its fullest frames are sent, and
    topped up.

    No burst waits for the end of a schedule that was made before it came. Topping up: of the bursts in later frames,
    those that still fit go too, oldest first.
    """

    def leaving(self, slot: int) -> Sequence[Burst]:
        rounds = self._rounds_left(slot, _ROLLING_STEPS)
        if not rounds:
            return ()
        paths = [self._paths[pair] for pair, _ in self._left]
        chosen = _topped_up(rounds[0], paths, capacity=self._wavelengths if self._converting else 1)
        return _take_oldest(self._left, Counter(self._left[i][0] for i in chosen))


def _topped_up(frames: Sequence[Sequence[int]], paths: Paths, *, capacity: int) -> list[int]:
    """The paths of the frames, and of all others those that still fit into one of them, in their order."""
    loads = [Counter(link for i in frame for link in paths[i]) for frame in frames]
    chosen = {i for frame in frames for i in frame}
    for i, path in enumerate(paths):
        if i not in chosen:
            for load in loads:
                if all(load[link] < capacity for link in path):
                    load.update(path)
                    chosen.add(i)
                    break
    return sorted(chosen)


class Greedy:
    """Every burst by itself, when it comes: first fit over slots, then wavelengths, all reservations made so far being
    known.

    ``drops``: only the first slot that can be had is tried, and the burst is lost where no wavelength is free in it
    (JET without buffers); else it waits for the first slot that has one, gaps between reservations included.
    """

    def __init__(self, paths: Paths, wavelengths: int, *, converting: bool, known_after: int, drops: bool) -> None:
        self._lead, self._drops = 1 + known_after, drops
        self._reservations = Reservations(paths, wavelengths, converting=converting)
        self._departures: defaultdict[int, list[Burst]] = defaultdict(list)
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        first = slot + self._lead
        chosen = self._reservations.reserve(pair, first, first if self._drops else math.inf)
        if chosen is not None:
            self._departures[chosen].append((pair, slot))
        return chosen is not None

    def leaving(self, slot: int) -> Sequence[Burst]:
        self._reservations.forget(slot)
        return self._departures.pop(slot, ())


Dispatcher = LiquidCycles | RollingLiquid | Greedy
"""A strategy. ``arrive``: a burst of that pair came in that slot; False where the strategy loses it. It leaves in slot
a + 1 + ``known_after`` at the earliest. ``leaving``: the bursts that are sent in this slot; called once a slot, before
the slot's arrivals. ``cycles``: rounds of each liquid schedule."""


def _take_oldest(bursts: list[Burst], required: Counter[int]) -> list[Burst]:
    """Take so many bursts of each pair out of the list, those that came first."""
    taken, left = [], []
    for burst in bursts:
        if required[burst[0]] > 0:
            required[burst[0]] -= 1
            taken.append(burst)
        else:
            left.append(burst)
    bursts[:] = left
    return taken
