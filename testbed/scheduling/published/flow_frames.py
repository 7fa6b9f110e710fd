"""Frames by decomposition of a flow: how long each possible frame should last (linear programme), and whole frames out
of that.

Theory. Basu et al. 2023 (arXiv 2309.13541) see all-to-all as a concurrent multicommodity flow and take its rates apart
into steps. With paths that are given, and frames in which no link is used twice, the flow is a duration x[F] >= 0 for
each possible frame F, of the least sum such that every transfer is sent once: a programme with a column a frame.
Columns are generated: the programme's prices say how much a transfer is worth, a frame of greater worth than one is
sought greedily, until none is found. The frames of the longest durations are then taken whole, one after another, each
filled up with whatever else fits.
"""

import random
from collections.abc import Sequence

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_array

from testbed.arrays import FloatArray
from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic

Frame = frozenset[int]
ROUNDS = 40
"""Programmes solved at most."""
TRIES = 8
"""Frames sought a round."""
MOST_TRANSFERS = 3000
"""Above it the programme is left out, and frames are filled greedily alone."""


def flow_frames(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Half of the time limit at most goes into the programme (without ``now``: ROUNDS of it). Proves no more than the
    length shows."""
    paths = traffic.paths()
    chance = random.Random(f"flow frames {seed}")
    end = None if now is None else now() + time_limit_s / 2
    found = _greedy_cover(paths, np.ones(len(paths)), chance)
    detail = "no programme: too many transfers"
    if len(paths) <= MOST_TRANSFERS:
        durations: FloatArray = np.ones(len(found))
        least, rounds = float(len(found)), 0
        while rounds < ROUNDS and not (now is not None and end is not None and now() >= end):
            durations, least, prices = _durations(found, len(paths))
            new = _worthy_frames(paths, prices, chance, set(found))
            rounds += 1
            if not new or least <= traffic.bottleneck_load * (1 + 1e-9):
                break
            found += new
            durations = np.concatenate([durations, np.zeros(len(new))])
        found = [found[i] for i in np.argsort(-durations, kind="stable")]
        detail = f"flow of {least:.2f} frames after {rounds} programmes"
    frames = _whole_frames(paths, found)
    return Schedule.of_frames(frames, traffic.bottleneck_load, method="flow-frames", detail=detail)


def _durations(frames: Sequence[Frame], transfers: int) -> tuple[FloatArray, float, FloatArray]:
    """(durations, their sum, what each transfer is worth) of the least sum that sends every transfer once."""
    rows = np.array([i for frame in frames for i in frame])
    columns = np.repeat(np.arange(len(frames)), [len(frame) for frame in frames])
    sent = csc_array((-np.ones(len(rows)), (rows, columns)), shape=(transfers, len(frames)))
    found = linprog(
        np.ones(len(frames)), A_ub=sent, b_ub=-np.ones(transfers), bounds=(0, None), method="highs"
    )
    return (
        np.asarray(found.x),
        float(found.fun),
        np.maximum(-np.asarray(found.ineqlin.marginals), 0.0),
    )


def _worthy_frames(
    paths: Sequence[Sequence[int]], prices: FloatArray, chance: random.Random, known: set[Frame]
) -> list[Frame]:
    """New frames whose transfers are together worth more than one."""
    worth = prices / np.sqrt([len(path) for path in paths])
    found: list[Frame] = []
    for number in range(TRIES):
        noise = np.array([1 + 0.4 * number / TRIES * (2 * chance.random() - 1) for _ in paths])
        order = np.argsort(-(worth + 1e-9) * noise, kind="stable")
        frame = frozenset(_fill(paths, order.tolist())[0])
        if frame not in known and prices[list(frame)].sum() > 1 + 1e-6:
            known.add(frame)
            found.append(frame)
    return found


def _greedy_cover(
    paths: Sequence[Sequence[int]], worth: FloatArray, chance: random.Random
) -> list[Frame]:
    """Frames that send every transfer: the busiest links' transfers first."""
    load = np.bincount([link for path in paths for link in path])
    left = sorted(
        range(len(paths)), key=lambda i: (-max(load[link] for link in paths[i]), chance.random())
    )
    found = []
    while left:
        frame, left = _fill(paths, left)
        found.append(frozenset(frame))
    return found


def _whole_frames(paths: Sequence[Sequence[int]], frames: Sequence[Frame]) -> list[list[int]]:
    """Every transfer once: frames in their order, less what was sent, filled up with what is left, the fullest links'
    first."""
    left = set(range(len(paths)))
    remaining = np.bincount([link for path in paths for link in path])
    found = []
    for frame in [*frames, *[frozenset[int]()] * len(paths)]:
        if not left:
            break
        own = sorted(frame & left)
        if frame and len(own) < 0.6 * len(frame):
            continue
        order = own + sorted(
            left - set(own), key=lambda i: (-max(remaining[link] for link in paths[i]), i)
        )
        sent, _ = _fill(paths, order)
        for i in sent:
            remaining[list(paths[i])] -= 1
        left -= set(sent)
        found.append(sent)
    return found


def _fill(paths: Sequence[Sequence[int]], order: Sequence[int]) -> tuple[list[int], list[int]]:
    """(transfers that fit together, taken in this order; the others, in this order)."""
    taken, others, busy = [], [], set[int]()
    for i in order:
        if busy.isdisjoint(paths[i]):
            taken.append(i)
            busy.update(paths[i])
        else:
            others.append(i)
    return taken, others
