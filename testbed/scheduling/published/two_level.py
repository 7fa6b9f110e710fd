"""Two-level scheduling of all-to-all: balance within groups of senders, then rotate between the groups, one stage after
another.

After FLASH (Lei et al. 2025, arXiv 2505.09764), whose groups are servers with several processors: here a group are the
senders, or receivers, of one switch. In stage k group g sends to group g + k only; within a stage every sender goes
round the receivers from its own place on, so that all carry equal parts. A stage begins when the one before has ended.
No search: its merit is time.
"""

from collections.abc import Sequence

from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.baselines import split_rounds


def two_level(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Cost: transfers times frames of a stage. Where a traffic does not say its nodes, each sender is a group of its
    own."""
    paths = traffic.paths()
    sources, sinks = _groups(traffic, paths)
    senders, receivers = (
        _places([path[end] for path in paths], own) for end, own in ((0, sources), (-1, sinks))
    )
    number = 1 + max(*sources, *sinks)
    size = 1 + max(*senders, *receivers)
    stages: dict[int, list[tuple[int, int]]] = {}
    for i in range(len(paths)):
        turn = (receivers[i] - senders[i]) % size
        stages.setdefault((sinks[i] - sources[i]) % number, []).append((turn, i))
    frames = split_rounds(
        paths, [[i for _, i in sorted(stages[stage])] for stage in sorted(stages)]
    )
    return Schedule.of_frames(
        frames, traffic.bottleneck_load, method="two-level", detail=f"{len(stages)} stages"
    )


def _groups(traffic: Traffic, paths: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Group of each transfer's sender and of its receiver, numbered alike: a switch, or the sender itself."""
    if traffic.first_node is not None and traffic.last_node is not None:
        return traffic.first_node.tolist(), traffic.last_node.tolist()
    numbers = [
        {link: n for n, link in enumerate(dict.fromkeys(path[end] for path in paths))}
        for end in (0, -1)
    ]
    return [numbers[0][path[0]] for path in paths], [numbers[1][path[-1]] for path in paths]


def _places(ends: Sequence[int], groups: Sequence[int]) -> list[int]:
    """The place of each transfer's end (a link) in its group, in the order in which the transfers name them."""
    known: dict[int, dict[int, int]] = {}
    found = []
    for end, group in zip(ends, groups, strict=True):
        own = known.setdefault(group, {})
        found.append(own.setdefault(end, len(own)))
    return found
