"""Two-level scheduling of all-to-all, after FLASH (Lei et al. 2025, arXiv 2505.09764).

FLASH balances the messages within groups of senders, and then rotates between the groups, one stage
after another. Its groups are servers with several processors; here a group is the senders, or the
receivers, of one switch. In stage k, group g sends to group g + k only. Within a stage every sender
sends to the receivers in turn, beginning with its own number, so that all receive equally often. A
stage begins when the previous one has ended. There is no search, so the method is fast.
"""

from collections.abc import Sequence

from testbed.model.schedule import Clock, Schedule
from testbed.model.traffic import Traffic
from testbed.scheduling.baselines import split_rounds


def two_level(
    traffic: Traffic, *, seed: int = 1, time_limit_s: float = 60.0, now: Clock | None = None
) -> Schedule:
    """Schedule a traffic in stages.

    If the traffic does not name its switches, each sender is a group of its own. Only ``traffic``
    is used. The cost is the number of transfers times the number of frames of a stage.
    """
    paths = traffic.paths()
    source_groups, sink_groups = _groups(traffic, paths)
    senders = _numbers_in_group([path[0] for path in paths], source_groups)
    receivers = _numbers_in_group([path[-1] for path in paths], sink_groups)
    groups = 1 + max(*source_groups, *sink_groups)
    group_size = 1 + max(*senders, *receivers)
    # Each transfer of a stage, with its round within the stage.
    stages: dict[int, list[tuple[int, int]]] = {}
    for i in range(len(paths)):
        round_number = (receivers[i] - senders[i]) % group_size
        stage = (sink_groups[i] - source_groups[i]) % groups
        stages.setdefault(stage, []).append((round_number, i))
    transfers_of_stages = []
    for stage in sorted(stages):
        transfers_of_stages.append([i for _, i in sorted(stages[stage])])
    frames = split_rounds(paths, transfers_of_stages)
    return Schedule.of_frames(
        frames, traffic.bottleneck_load, method="two-level", detail=f"{len(stages)} stages"
    )


def _groups(traffic: Traffic, paths: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the group of each transfer's sender, and of its receiver.

    If the traffic names its switches, a group is a switch, with the number that the traffic gives
    it. Otherwise each sender and each receiver is a group. Senders and receivers are then numbered
    separately, in the order of their first transfers.
    """
    if traffic.first_node is not None and traffic.last_node is not None:
        return traffic.first_node.tolist(), traffic.last_node.tolist()
    sender_numbers: dict[int, int] = {}
    receiver_numbers: dict[int, int] = {}
    source_groups = []
    sink_groups = []
    for path in paths:
        source_groups.append(sender_numbers.setdefault(path[0], len(sender_numbers)))
        sink_groups.append(receiver_numbers.setdefault(path[-1], len(receiver_numbers)))
    return source_groups, sink_groups


def _numbers_in_group(ends: Sequence[int], groups: Sequence[int]) -> list[int]:
    """Return the number of each transfer's end within its group, in the order of the transfers.

    Args:
        ends: The link at the end of each transfer, which identifies the host.
        groups: The group of this end.
    """
    numbers_of_group: dict[int, dict[int, int]] = {}
    numbers = []
    for end, group in zip(ends, groups, strict=True):
        group_numbers = numbers_of_group.setdefault(group, {})
        numbers.append(group_numbers.setdefault(end, len(group_numbers)))
    return numbers
