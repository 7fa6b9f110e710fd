"""Frames by decomposition of a flow (after Basu et al. 2023, arXiv 2309.13541).

The paper describes all-to-all as a concurrent multicommodity flow, whose rates are decomposed into
steps. With given paths, and frames in which no link is used twice, the flow is a duration
x[F] >= 0 for each possible frame F, with the smallest sum such that every transfer is sent once.
This is a linear programme with a column per frame.

Columns are generated: the prices of the programme say how much each transfer is worth, and a greedy
search looks for frames that are worth more than one, until it finds none. Then the frames with the
longest durations are used completely, one after another, and each is filled up with whatever else
fits.
"""

import itertools
import random
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from testbed.arrays import FloatArray
from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic

Frame = frozenset[int]

# Largest number of programmes.
ROUNDS = 40

# Number of frames that are searched in each round.
TRIES = 8

# Traffics with more transfers are scheduled without the programme, by filling frames greedily.
MAX_TRANSFERS = 3000

# A frame is used only if at least this part of its transfers has not been sent yet.
_MIN_UNSENT_PART = 0.6

# Largest relative change of a transfer's worth in the search for new frames.
_NOISE = 0.4


def flow_frames(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Schedule a traffic by decomposition of a flow.

    The result proves only what follows from the length of the schedule.

    Args:
        traffic: The traffic.
        seed: Seed of the search for frames.
        time_limit_s: Time limit in seconds. The programmes use at most half of it.
        now: A clock in seconds. None: the time is not limited, only the programmes (ROUNDS).
    """
    paths = traffic.paths()
    rng = random.Random(f"flow frames {seed}")
    end_s = None if now is None else now() + time_limit_s / 2
    frames = _greedy_cover(paths, rng)
    detail = "no programme: too many transfers"
    if len(paths) <= MAX_TRANSFERS:
        durations: FloatArray = np.ones(len(frames))
        total_duration = float(len(frames))
        rounds = 0
        while rounds < ROUNDS:
            if now is not None and end_s is not None and now() >= end_s:
                break
            durations, total_duration, prices = _durations(frames, len(paths))
            new_frames = _worthy_frames(paths, prices, rng, set(frames))
            rounds += 1
            if not new_frames or total_duration <= traffic.bottleneck_load * (1 + 1e-9):
                break
            frames += new_frames
            durations = np.concatenate([durations, np.zeros(len(new_frames))])
        frames = [frames[i] for i in np.argsort(-durations, kind="stable")]
        detail = f"flow of {total_duration:.2f} frames after {rounds} programmes"
    return Schedule.of_frames(
        _complete_frames(paths, frames),
        traffic.bottleneck_load,
        method="flow-frames",
        detail=detail,
    )


def _durations(frames: Sequence[Frame], transfers: int) -> tuple[FloatArray, float, FloatArray]:
    """Find the durations with the smallest sum that send every transfer once.

    Args:
        frames: The frames.
        transfers: Number of transfers.

    Returns:
        The duration of each frame, their sum, and the price of each transfer.
    """
    rows = np.array(list(itertools.chain(*frames)))
    columns = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    sent = csc_array((-np.ones(len(rows)), (rows, columns)), shape=(transfers, len(frames)))
    result = linprog(
        np.ones(len(frames)), A_ub=sent, b_ub=-np.ones(transfers), bounds=(0, None), method="highs"
    )
    prices = np.maximum(-np.asarray(result.ineqlin.marginals), 0.0)
    return np.asarray(result.x), float(result.fun), prices


def _worthy_frames(
    paths: Sequence[Sequence[int]], prices: FloatArray, rng: random.Random, known_frames: set[Frame]
) -> list[Frame]:
    """Return new frames whose transfers are together worth more than one.

    Args:
        paths: The links of each transfer.
        prices: Price of each transfer.
        rng: Random generator; each try changes the prices a little more.
        known_frames: The existing frames; the new ones are added.
    """
    # A transfer with a long path blocks more of the others.
    worth = prices / np.sqrt([len(path) for path in paths])
    new_frames: list[Frame] = []
    for number in range(TRIES):
        amplitude = _NOISE * number / TRIES
        noise = np.array([1 + amplitude * (2 * rng.random() - 1) for _ in paths])
        order = np.argsort(-(worth + 1e-9) * noise, kind="stable")
        transfers, _ = _fill(paths, order.tolist())
        frame = frozenset(transfers)
        if frame not in known_frames and prices[list(frame)].sum() > 1 + 1e-6:
            known_frames.add(frame)
            new_frames.append(frame)
    return new_frames


def _greedy_cover(paths: Sequence[Sequence[int]], rng: random.Random) -> list[Frame]:
    """Return frames that send every transfer, beginning with the transfers of the busiest links."""
    load = np.bincount(list(itertools.chain(*paths)))

    def by_load(i: int) -> tuple[int, float]:
        return -max(load[link] for link in paths[i]), rng.random()

    remaining = sorted(range(len(paths)), key=by_load)
    frames = []
    while remaining:
        frame, remaining = _fill(paths, remaining)
        frames.append(frozenset(frame))
    return frames


def _complete_frames(paths: Sequence[Sequence[int]], frames: Sequence[Frame]) -> list[list[int]]:
    """Return frames that send every transfer exactly once.

    The frames are used in their order, without transfers that were already sent, and are filled up
    with other transfers, those over the fullest links first.

    Args:
        paths: The links of each transfer.
        frames: The frames in order of preference.
    """
    unsent = set(range(len(paths)))
    # Number of unsent transfers over each link.
    load = np.bincount(list(itertools.chain(*paths)))

    def by_load(i: int) -> tuple[int, int]:
        return -max(load[link] for link in paths[i]), i

    complete_frames = []
    # Empty frames follow, until every transfer is sent.
    candidates = [*frames, *[frozenset[int]()] * len(paths)]
    for frame in candidates:
        if not unsent:
            break
        preferred = sorted(frame & unsent)
        if frame and len(preferred) < _MIN_UNSENT_PART * len(frame):
            continue
        fillers = sorted(unsent - set(preferred), key=by_load)
        sent, _ = _fill(paths, preferred + fillers)
        for i in sent:
            load[list(paths[i])] -= 1
        unsent -= set(sent)
        complete_frames.append(sent)
    return complete_frames


def _fill(paths: Sequence[Sequence[int]], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """Fill a frame with transfers in this order.

    Args:
        paths: The links of each transfer.
        order: The transfers.

    Returns:
        The transfers of the frame, and the others, both in this order.
    """
    in_frame = []
    remaining = []
    used_links = set[int]()
    for i in order:
        if used_links.isdisjoint(paths[i]):
            in_frame.append(i)
            used_links.update(paths[i])
        else:
            remaining.append(i)
    return in_frame, remaining
