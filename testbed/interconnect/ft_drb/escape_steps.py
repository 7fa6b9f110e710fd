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
    """A number below 2^31 that looks random: the draw of FT-DRB's decisions (a linear congruential generator over
    both)."""
    x = ((int(first) & 0x7FFFFFFF) * 73856093) ^ ((int(second) & 0x7FFFFFFF) * 19349663)
    x = ((x & 0x7FFFFFFF) * 1103515245 + 12345) & 0x7FFFFFFF
    x = x ^ (x >> 15)
    x = (x * 1103515245 + 12345) & 0x7FFFFFFF
    return x ^ (x >> 13)


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
    """(links, signature) of the multistep path start, first, second, target (Zarza 2011, eqs. 3.1, 3.2); NONE: left
    out.

    ``bad[c]`` nonzero: a cable to keep off, everywhere (``around`` NONE) or only where it touches the router
    ``around``. ``came``: the cable that the packet came over (NONE: none). TOO_LONG where the path takes a bad cable or
    turns round on one. Two paths over the same links have the same signature.
    """
    at, length, signature, last = start, 0, start + 1, arrived
    limit = 3 * paths.diameter + 3
    for step in range(3):
        goal = first if step == 0 else second if step == 1 else target
        if goal == NONE:
            continue
        if goal == at:
            continue
        link = next_link(paths.routes, 0, at, goal)
        while link != NONE:
            cable = paths.cable[link]
            there = paths.link_target[link]
            if cable == last or length >= limit:
                return TOO_LONG, 0
            if bad[cable] != 0 and (around == NONE or at == around or there == around):
                return TOO_LONG, 0
            at, last = there, cable
            length += 1
            signature = mixed(signature, link + 1)
            if goal == at:
                break
            link = next_link(paths.routes, 0, at, goal)
    return length, signature


def measure_straight_path(
    paths: Paths, start: int, first: int, second: int, target: int
) -> tuple[int, int]:
    """``measure_path`` over a grid (its ``CompactRoutes``) where no cable is bad, stretch by stretch; signatures of its
    own."""
    routes = paths.routes
    at, length, signature, last, stretch = start, 0, start + 1, NONE, 0
    for step in range(3):
        goal = first if step == 0 else second if step == 1 else target
        if goal == NONE:
            continue
        begins = last != NONE
        for k in range(routes.dimensions):
            here, there = routes.place[at, k], routes.place[goal, k]
            if here == there:
                continue
            turn = int(routes.turn[0, k, here, there])
            if (
                begins
                and paths.cable[routes.links[at, turn]] == paths.cable[routes.links[at, last ^ 1]]
            ):
                return TOO_LONG, 0
            if turn != last:
                signature, stretch = mixed(signature, (stretch << 4) + last), 0
            links = int(routes.distance[k, here, there])
            begins, last, stretch, length = False, turn, stretch + links, length + links
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
    """Intermediates that lead a packet round this router's dead links (Zarza 2011, section 3.2); both NONE if all are
    dead.

    ``down[c]`` nonzero: the cable is down (only those of this router are looked at). ``came``: the cable the packet
    came over (NONE: from its host), taken back only where nothing else leads on. ``target``: where it is bound in the
    end. The first intermediate is a live neighbour; the second, where one is needed, is a neighbour of the first; where
    neither leads on, any router. A packet's first escape is the shortest there is. After ``escapes`` earlier ones it is
    the shortest but for a noise of so many links, and after LOCAL_ESCAPES drawn from around the target and all over the
    network, so that no group of routers hands a packet round permanently.
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
    """The best pair of intermediates whose first is a live neighbour: ahead, or (``back`` 1) where the packet came
    from.

    The second is one of its neighbours (``reach`` 0), or any router (1; of a packet that has escaped, FAR_DRAWN drawn
    ones).
    """
    best, first, second = 1 << 62, NONE, NONE
    for i in range(paths.out_first[router], paths.out_first[router + 1]):
        link = paths.out_link[i]
        cable = paths.cable[link]
        if down[cable] != 0 or (cable == arrived) != (back == 1):
            continue
        middle = paths.link_target[link]
        low, high = paths.near_first[middle], paths.near_first[middle + 1]
        many = (
            high - low
            if reach == 0
            else paths.routers
            if escapes == 0
            else min(FAR_DRAWN, paths.routers)
        )
        for j in range(-1, many):
            if reach == 0 and j >= 0 and paths.near_hops[low + j] > 1:
                break
            other = NONE
            if j >= 0:
                other = (
                    paths.near[low + j]
                    if reach == 0
                    else j
                    if escapes == 0
                    else far_router(paths, target, turn, j)
                )
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
                best, first, second = key, int(middle), int(other)
    return first, second


def far_router(paths: Paths, target: int, turn: int, drawn: int) -> int:
    """A router by chance: every other time one of those around the target, where dead ends are met most."""
    chance = mixed(turn, drawn)
    if drawn % 2 == 0:
        return chance % int(paths.routers)
    end = target if target < paths.routers else paths.host_router[target - paths.routers]
    low, high = paths.near_first[end], paths.near_first[end + 1]
    return int(paths.near[low + chance % (high - low)])


def any_neighbour(paths: Paths, down: IntArray, router: int, turn: int) -> int:
    """A neighbour over a live link, the first from a drawn one on; NONE where every link is dead."""
    low, high = paths.out_first[router], paths.out_first[router + 1]
    for i in range(high - low):
        link = paths.out_link[low + (turn + i) % (high - low)]
        if down[paths.cable[link]] == 0:
            return int(paths.link_target[link])
    return NONE
