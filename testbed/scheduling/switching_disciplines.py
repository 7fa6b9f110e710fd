"""What an order of transfers takes where switches store blocked messages, or links are parted into virtual ones: the
hardware remedies for a wormhole network's contention (Gabrielyan 2007, 3.1.2 and 3.2.1), next to which liquid schedules
stand.

Virtual time, messages of one time frame, as in ``wormhole``. Two models:

- *queues*: a link carries one message at a time, first come, first served, and a switch has room for every message that
  waits. A message may go on over its next link as soon as its head is there (cut-through) or when all of it is (store
  and forward).
- *virtual links*: a wormhole network in which so many messages hold each link at once and share its rate evenly.
"""

import heapq
from collections import deque
from collections.abc import Sequence

from testbed.errors import InputError
from testbed.scheduling.wormhole import WormholeRun, order_of, shared_wormhole


def run_queues(
    paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], *, stored_fraction: float
) -> tuple[float, ...]:
    """When each transfer has arrived. ``stored_fraction``: of a message, how much must be in a switch before it goes
    on: 0 cut-through, 1 store and forward of whole messages, 1 / n in n packets (which then keep together).

    All transfers of all ``frames`` wait at their first link from the beginning, in that order. O(hops log hops). Raises
    InputError for frames that do not hold every transfer once, or a fraction outside 0 to 1.

    >>> run_queues([[0, 1, 2]], [[0]], stored_fraction=1.0), run_queues([[0, 1, 2]], [[0]], stored_fraction=0.0)
    ((3.0,), (1.0,))
    """
    order = order_of(paths, frames)
    if not 0 <= stored_fraction <= 1:
        raise InputError(f"stored fraction {stored_fraction:g}: give 0 to 1")
    free_at: dict[int, float] = {}
    arrived = [0.0] * len(paths)
    # (time at which it may begin on the link, hops so far, place in the order, transfer): links serve in this order.
    events = [(0.0, 0, place, i) for place, i in enumerate(order)]
    heapq.heapify(events)
    queues: dict[int, deque[tuple[int, int, int]]] = {}
    while events:
        time, hop, place, i = heapq.heappop(events)
        if hop < 0:
            waiting = queues[i]
            hop, place, i = waiting.popleft()
        else:
            waiting = queues.setdefault(paths[i][hop], deque())
            if waiting or free_at.get(paths[i][hop], 0.0) > time:
                if not waiting:
                    heapq.heappush(events, (free_at[paths[i][hop]], -1, place, paths[i][hop]))
                waiting.append((hop, place, i))
                continue
        link = paths[i][hop]
        free_at[link] = time + 1.0
        if waiting:
            heapq.heappush(events, (time + 1.0, -1, place, link))
        if hop + 1 < len(paths[i]):
            heapq.heappush(events, (time + stored_fraction, hop + 1, place, i))
        else:
            arrived[i] = time + 1.0
    return tuple(arrived)


def run_virtual_links(paths: Sequence[Sequence[int]], frames: Sequence[Sequence[int]], *, number: int) -> WormholeRun:
    """``run_wormhole`` without barriers, each link parted into ``number`` virtual ones: so many messages hold it at
    once, whichever part is free, and share its rate evenly. With 1 it is ``run_wormhole``. InputError for less, or
    frames that miss a transfer.
    """
    order = order_of(paths, frames)
    if number < 1:
        raise InputError(f"{number} virtual links a link: give 1 or more")
    return shared_wormhole(paths, order, number)
