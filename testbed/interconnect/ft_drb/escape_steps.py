"""Decisions of routers under FT-DRB: multistep paths and escape paths (Zarza 2011, section 3.2).

These are functions of flat arrays that run in Python and compiled. The decisions of sources are in
source_steps.py.
"""

from testbed.arrays import IntArray
from testbed.interconnect.ft_drb.source_state import ESCAPES, NO_WAY
from testbed.interconnect.static_paths import NONE, Paths, next_link

# The length of a path that cannot be taken.
TOO_LONG = 1 << 30
# For its first so many escapes, a packet takes its second intermediate from the neighbours of the
# first; after that, any router.
LOCAL_ESCAPES = 6
# Number of second intermediates that are drawn for a packet that escapes again, if the neighbours
# lead nowhere.
FAR_DRAWN = 16
# Links of random noise in the choice, for every escape that the packet has made before.
DETOUR = 1


def mixed(first: int, second: int) -> int:
    """Return a number from 0 to 2^31 - 1 that looks random and depends only on the two numbers.

    All random decisions of FT-DRB are drawn this way. It is a linear congruential generator.
    """
    x = ((int(first) & 0x7FFFFFFF) * 73856093) ^ ((int(second) & 0x7FFFFFFF) * 19349663)
    x = ((x & 0x7FFFFFFF) * 1103515245 + 12345) & 0x7FFFFFFF
    x = x ^ (x >> 15)
    x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x ^ (x >> 13)


def leg_end(step: int, first: int, second: int, target: int) -> int:
    """Return where leg 0, 1 or 2 of a multistep path ends; NONE if the path has no such leg."""
    if step == 0:
        return first
    return second if step == 1 else target


def measure_path(
    paths: Paths,
    bad: IntArray,
    around: int,
    start: int,
    arrived: int,
    first: int,
    second: int,
    target: int,
) -> tuple[int, int]:
    """Return length and signature of the multistep path start, first, second, target.

    Zarza 2011, equations 3.1 and 3.2. Two paths over the same links have the same signature.

    Args:
        paths: The network's minimal paths.
        bad: Nonzero for each cable to avoid.
        around: Router at which cables are avoided; NONE: everywhere.
        start: The first router.
        arrived: The cable by which the packet arrived; NONE: it comes from a host.
        first: The first intermediate router, or NONE.
        second: The second intermediate router, or NONE.
        target: The last router or host.

    Returns:
        The number of links, and the signature. The number is TOO_LONG if the path has a cable to
        avoid, or turns round on a cable.
    """
    at = start
    length = 0
    signature = start + 1
    last = arrived
    limit = 3 * paths.diameter + 3
    for step in range(3):
        goal = leg_end(step, first, second, target)
        if goal == NONE:
            continue
        if goal == at:
            continue
        link = next_link(paths.routes, 0, at, goal)
        while link != NONE:
            cable = paths.cable[link]
            next_router = paths.link_target[link]
            if cable == last or length >= limit:
                return TOO_LONG, 0
            if bad[cable] != 0 and (around == NONE or at == around or next_router == around):
                return TOO_LONG, 0
            at = next_router
            last = cable
            length += 1
            signature = mixed(signature, link + 1)
            if goal == at:
                break
            link = next_link(paths.routes, 0, at, goal)
    return length, signature


def measure_straight_path(
    paths: Paths, start: int, first: int, second: int, target: int
) -> tuple[int, int]:
    """Return the same as ``measure_path`` for a grid without cables to avoid.

    It goes by straight stretches (``CompactRoutes``), not by links, and has signatures of its own.
    """
    routes = paths.routes
    at = start
    length = 0
    signature = start + 1
    last = NONE
    stretch = 0
    for step in range(3):
        goal = leg_end(step, first, second, target)
        if goal == NONE:
            continue
        begins = last != NONE
        for k in range(routes.dimensions):
            start_place = routes.place[at, k]
            goal_place = routes.place[goal, k]
            if start_place == goal_place:
                continue
            turn = int(routes.turn[0, k, start_place, goal_place])
            if (
                begins
                and paths.cable[routes.links[at, turn]] == paths.cable[routes.links[at, last ^ 1]]
            ):
                return TOO_LONG, 0
            if turn != last:
                signature = mixed(signature, (stretch << 4) + last)
                stretch = 0
            links = int(routes.distance[k, start_place, goal_place])
            begins = False
            last = turn
            stretch = stretch + links
            length = length + links
        at = goal
    return length, mixed(signature, (stretch << 4) + last)


def escape_path(
    paths: Paths,
    counters: IntArray,
    down: IntArray,
    router: int,
    arrived: int,
    target: int,
    packet: int,
    escapes: int,
) -> tuple[int, int]:
    """Return intermediates that lead a packet round a router's dead links (Zarza 2011, 3.2).

    The first intermediate is a neighbour over a live link. The second, if one is needed, is a
    neighbour of the first; if no neighbour helps, it is any router. The first escape of a packet
    takes the shortest path. Later ones add random noise to the lengths, and after LOCAL_ESCAPES of
    them the second intermediate is drawn from the whole network and the target's surroundings. So
    no group of routers passes a packet round for ever.

    Args:
        paths: The network's minimal paths.
        counters: FT-DRB's counters, which are increased.
        down: Nonzero for each cable that is down. Only cables of this router are read.
        router: The router.
        arrived: The cable by which the packet arrived; NONE: it comes from a host. The packet
            returns over it only if no other path exists.
        target: Where the packet goes in the end.
        packet: Number of the packet.
        escapes: Number of its earlier escapes.

    Returns:
        The intermediates; both are NONE if all links are dead.
    """
    counters[ESCAPES] += 1
    turn = mixed(packet, escapes * 977 + router)
    for reach in range(0 if escapes < LOCAL_ESCAPES else 1, 2):
        for back in range(2):
            first, second = best_escape(
                paths, down, router, arrived, target, turn, escapes, reach, back
            )
            if first != NONE:
                return first, second
    counters[NO_WAY] += 1
    return any_neighbour(paths, down, router, turn), NONE


def best_escape(
    paths: Paths,
    down: IntArray,
    router: int,
    arrived: int,
    target: int,
    turn: int,
    escapes: int,
    reach: int,
    back: int,
) -> tuple[int, int]:
    """Return the best pair of intermediates whose first is a live neighbour.

    Args:
        paths: The network's minimal paths.
        down: Nonzero for each cable that is down.
        router: The router.
        arrived: The cable by which the packet arrived, or NONE.
        target: Where the packet goes in the end.
        turn: A random number that decides between equally good pairs.
        escapes: Number of the packet's earlier escapes.
        reach: 0: the second intermediate is a neighbour of the first. 1: it is any router; for a
            packet that has escaped before, one of FAR_DRAWN random ones.
        back: 1: the first intermediate is the router from which the packet came.
    """
    best = 1 << 62
    first = NONE
    second = NONE
    for i in range(paths.out_first[router], paths.out_first[router + 1]):
        link = paths.out_link[i]
        cable = paths.cable[link]
        if down[cable] != 0 or (cable == arrived) != (back == 1):
            continue
        middle = paths.link_target[link]
        low = paths.near_first[middle]
        high = paths.near_first[middle + 1]
        candidates = paths.routers
        if reach == 0:
            candidates = high - low
        elif escapes > 0:
            candidates = min(FAR_DRAWN, paths.routers)
        for j in range(-1, candidates):
            if reach == 0 and j >= 0 and paths.near_hops[low + j] > 1:
                break
            other = NONE
            if j >= 0:
                if reach == 0:
                    other = paths.near[low + j]
                elif escapes == 0:
                    other = j
                else:
                    other = far_router(paths, target, turn, j)
            if other == router:
                continue
            if other == middle:
                continue
            length, signature = measure_path(
                paths, down, router, router, NONE, middle, other, target
            )
            if length == TOO_LONG:
                continue
            key = ((length + mixed(signature, turn) % (1 + DETOUR * escapes)) << 32) + mixed(
                turn, signature
            )
            if key < best:
                best = key
                first = int(middle)
                second = int(other)
    return first, second


def far_router(paths: Paths, target: int, turn: int, drawn: int) -> int:
    """Return a random router; half of them are near the target, where most dead ends are."""
    chance = mixed(turn, drawn)
    if drawn % 2 == 0:
        return chance % int(paths.routers)
    end = target if target < paths.routers else paths.host_router[target - paths.routers]
    low = paths.near_first[end]
    high = paths.near_first[end + 1]
    return int(paths.near[low + chance % (high - low)])


def any_neighbour(paths: Paths, down: IntArray, router: int, turn: int) -> int:
    """Return a neighbour over a live link, starting at a random one; NONE if every link is dead."""
    low = paths.out_first[router]
    high = paths.out_first[router + 1]
    for i in range(high - low):
        link = paths.out_link[low + (turn + i) % (high - low)]
        if down[paths.cable[link]] == 0:
            return int(paths.link_target[link])
    return NONE
