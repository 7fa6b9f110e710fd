"""Ways to empty the buffers of an optical burst switching cloud: liquid schedules, or one burst after another by first
fit.

A strategy is handed the arrivals and asked, slot by slot, what leaves; it holds no buffers and counts nothing.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Protocol

from testbed.scheduling.packing import pack


class Reservations:
    """Bit k stands for the slot k after the present one; ``advance`` moves on by one slot.

    ``converting``: a path takes any wavelength on each fibre, so that only the number in use counts; else one on all of
    them.
    """

    def __init__(self, paths: Sequence[Sequence[int]], wavelengths: int, *, converting: bool) -> None:
        self._paths = [tuple(path) for path in paths]
        links = 1 + max(link for path in self._paths for link in path)
        # Converting: layer w holds the slots in which more than w wavelengths are in use; else those of wavelength w
        # itself.
        self._layers = [[0] * links for _ in range(wavelengths)]
        self._converting = converting

    def advance(self) -> None:
        self._layers = [[slots >> 1 for slots in layer] for layer in self._layers]

    def reserve(self, pair: int, earliest: int, *, most_ahead: int | None = None) -> int | None:
        """Reserve the first slot from ``earliest`` on, the lowest wavelength in it; how many slots ahead it is.

        None, and nothing reserved, where that is more than ``most_ahead``. O(W * length).
        """
        path = self._paths[pair]
        layers = self._layers[-1:] if self._converting else self._layers
        best, chosen = -1, layers[0]
        for layer in layers:
            taken = 0
            for link in path:
                taken |= layer[link]
            taken >>= earliest
            first = (~taken & (taken + 1)).bit_length() - 1
            if best < 0 or first < best:
                best, chosen = first, layer
                if not first:
                    break
        ahead = earliest + best
        if most_ahead is not None and ahead > most_ahead:
            return None
        bit = 1 << ahead
        for link in path:
            if self._converting:
                layer = next(layer for layer in self._layers if not layer[link] & bit)
                layer[link] |= bit
            else:
                chosen[link] |= bit
        return ahead


_CYCLE_STEPS, _ROLLING_STEPS = 1_000, 200
Burst = tuple[int, int]
"""(pair, slot in which it arrived)."""
Paths = Sequence[Sequence[int]]


class Dispatcher(Protocol):
    """A strategy; a burst that arrives in slot a leaves in slot a + 1 + ``known_after`` at the earliest."""

    cycles: list[int]

    def arrive(self, pair: int, slot: int) -> bool:
        """A burst of that pair came in that slot; False where the strategy loses it."""

    def leaving(self, slot: int) -> Sequence[Burst]:
        """The bursts that are sent in this slot; asked once a slot, before the slot's arrivals."""


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
        self._departures: dict[int, list[Burst]] = {}
        self._slot = 0
        self.cycles: list[int] = []

    def arrive(self, pair: int, slot: int) -> bool:
        ahead = self._reservations.reserve(pair, self._lead, most_ahead=self._lead if self._drops else None)
        if ahead is None:
            return False
        self._departures.setdefault(slot + ahead, []).append((pair, slot))
        return True

    def leaving(self, slot: int) -> Sequence[Burst]:
        for _ in range(self._slot, slot):
            self._reservations.advance()
        self._slot = slot
        return self._departures.pop(slot, ())


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
