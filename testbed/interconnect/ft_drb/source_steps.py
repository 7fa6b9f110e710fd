"""Decisions of sources under FT-DRB (Zarza 2011, sections 3.3 and 3.4).

A source keeps a list of the failures that it knows, and chooses the path of each message. These are
functions of flat arrays that run in Python and compiled. The decisions of routers are in
escape_steps.py. The docstring of the package describes the complete algorithm.
"""

from testbed.interconnect.ft_drb import source_state as ft
from testbed.interconnect.ft_drb.escape_steps import (
    TOO_LONG,
    leg_end,
    measure_path,
    measure_straight_path,
    mixed,
)
from testbed.interconnect.static_paths import NONE, Paths, links_between, next_link


def select_path(
    drb: ft.FtDrb, source: int, destination: int, message: int, now: int
) -> tuple[int, int]:
    """Return the two intermediates of the next message between two hosts (Zarza 2011, Figure 3.11).

    Args:
        drb: FT-DRB's data.
        source: The host that sends.
        destination: The host that receives.
        message: Number of the message. It determines the random draw of the path.
        now: Present tick.

    Returns:
        The intermediate routers; both are NONE for the minimal path.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    if settings.mark_by_clock and state.listed[source] > 0:
        mark_by_clock(drb, source, destination, now)
    if state.permanents[source] == 0 and not settings.always:
        state.counters[ft.DIRECT] += 1
        return NONE, NONE
    pair = source * len(paths.host_router) + destination
    faulty = state.permanents[source] > 0 and minimal_path_failed(drb, source, destination)
    if not faulty and (
        not settings.always or (state.configured[pair] == 0 and settings.first_paths == 1)
    ):
        state.counters[ft.DIRECT] += 1
        return NONE, NONE
    if faulty and is_probe(drb, source, now):
        state.counters[ft.PROBES] += 1
        if not settings.synthetic_probes:
            return NONE, NONE
        state.probe_due[source] = 1
    if state.configured[pair] != state.version[source] + 1:
        configure_metapath(drb, source, destination)
    if state.known[pair] == 0:
        state.counters[ft.DIRECT] += 1
        return NONE, NONE
    chosen = sample_path(state, pair, mixed(settings.seed + message, source))
    first = int(state.first_middle[pair, chosen])
    second = int(state.second_middle[pair, chosen])
    if faulty:
        state.counters[ft.ALTERNATIVE] += 1
    elif first == NONE and second == NONE:
        state.counters[ft.DIRECT] += 1
    else:
        state.counters[ft.BALANCED] += 1
    return first, second


def sample_path(state: ft.SourceState, pair: int, draw: int) -> int:
    """Return a path of the metapath, drawn in proportion to its bandwidth.

    Zarza 2011, equations 3.6 to 3.8.

    Args:
        state: The state of all sources.
        pair: Index of the pair of hosts.
        draw: A random number below 2^31.
    """
    active = state.active[pair]
    total = 0.0
    for k in range(active):
        total += 1.0 / state.latency[pair, k]
    left = draw / 2147483648.0 * total
    for k in range(active - 1):
        left -= 1.0 / state.latency[pair, k]
        if left < 0.0:
            return k
    return int(active - 1)


def is_probe(drb: ft.FtDrb, source: int, now: int) -> bool:
    """Return whether a message tries its failed minimal path (Zarza 2011, Table 3.1)."""
    state = drb.state
    settings = drb.settings
    state.since_probe[source] += 1
    by_request = settings.probe_by_count and state.since_probe[source] >= settings.probe_every
    by_clock = settings.probe_by_clock and now - state.probed_at[source] >= settings.probe_ticks
    if by_request or by_clock:
        state.since_probe[source] = 0
        state.probed_at[source] = now
        return True
    return False


def minimal_path_failed(drb: ft.FtDrb, source: int, destination: int) -> bool:
    """Return whether a cable of the minimal path failed permanently, as the source knows."""
    paths = drb.paths
    state = drb.state
    at = paths.host_router[source]
    target = paths.routers + destination
    link = next_link(paths.routes, 0, at, target)
    while link != NONE:
        if state.permanent[source, paths.cable[link]] != 0:
            return True
        link = next_link(paths.routes, 0, paths.link_target[link], target)
    return False


def mark_by_clock(drb: ft.FtDrb, source: int, destination: int, now: int) -> None:
    """Mark cables of the minimal path that are listed for too long (Zarza 2011, Table 3.2).

    A latency ACK over the cable would have removed it from the list.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    target = paths.routers + destination
    link = next_link(paths.routes, 0, paths.host_router[source], target)
    while link != NONE:
        cable = paths.cable[link]
        if (
            state.notified[source, cable] > 0
            and state.permanent[source, cable] == 0
            and now - state.notified_at[source, cable] >= settings.marking_ticks
        ):
            mark_permanent(state, source, cable, now)
        link = next_link(paths.routes, 0, paths.link_target[link], target)


def mark_permanent(state: ft.SourceState, source: int, cable: int, now: int) -> None:
    """Count a failure as permanent from now on.

    The first permanent failure of a source starts the count of messages until a probe.
    """
    if state.permanents[source] == 0:
        state.since_probe[source] = 0
        state.probed_at[source] = now
    state.permanent[source, cable] = 1
    state.permanents[source] += 1
    state.version[source] += 1
    state.counters[ft.MARKED] += 1


def record_failure(drb: ft.FtDrb, source: int, cable: int, now: int) -> None:
    """Record a failure notification at the source (Zarza 2011, Figure 3.10).

    A failure becomes permanent after ``notifications`` of them without a latency ACK in between.
    """
    state = drb.state
    settings = drb.settings
    state.counters[ft.NOTIFICATIONS] += 1
    if state.notified[source, cable] == 0:
        state.listed[source] += 1
        if settings.mark_by_clock:
            state.notified_at[source, cable] = now
    if state.notified[source, cable] < 255:
        state.notified[source, cable] += 1
    due = settings.mark_by_count and state.notified[source, cable] >= settings.notifications
    if due and state.permanent[source, cable] == 0:
        mark_permanent(state, source, cable, now)


def clear_failure(state: ft.SourceState, source: int, cable: int) -> None:
    """Remove a cable from the source's list: a latency ACK or its router reported that it works."""
    if state.notified[source, cable] == 0:
        return
    state.notified[source, cable] = 0
    state.listed[source] -= 1
    state.counters[ft.CLEARED] += 1
    if state.permanent[source, cable] != 0:
        state.permanent[source, cable] = 0
        state.permanents[source] -= 1
        state.version[source] += 1


def record_latency(
    drb: ft.FtDrb, source: int, destination: int, first: int, second: int, latency: int
) -> None:
    """Record a latency ACK at the source, and size the metapath (Zarza 2011, Algorithm 3.3).

    Args:
        drb: FT-DRB's data.
        source: The host that receives the ACK.
        destination: The host that sent it.
        first: The first intermediate of the path that was measured, or NONE.
        second: The second intermediate, or NONE.
        latency: In ticks; 0 for a synthetic probe, which only shows that the path works.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    state.counters[ft.LATENCIES] += 1
    if state.listed[source] > 0:
        clear_along(drb, source, destination, first, second)
    if latency == 0:
        return
    pair = source * len(paths.host_router) + destination
    if state.configured[pair] == 0:
        if settings.always and first == NONE and second == NONE:
            average_latency(drb, pair, 0, latency)
            open_metapath(drb, source, destination)
        return
    for k in range(state.known[pair]):
        if state.first_middle[pair, k] == first and state.second_middle[pair, k] == second:
            average_latency(drb, pair, k, latency)
            size_metapath(drb, source, destination)
            return


def average_latency(drb: ft.FtDrb, pair: int, k: int, latency: int) -> None:
    """Include a latency of path k in its moving average.

    The first latency is the average. Each later one changes it by 1 / ``averaging`` of the
    difference.
    """
    state = drb.state
    settings = drb.settings
    bit = 1 << k
    if state.measured[pair] & bit != 0:
        known = state.latency[pair, k]
        latency = known + (latency - known) // settings.averaging
    state.latency[pair, k] = max(latency, 1)
    state.measured[pair] |= bit
    state.fresh[pair] |= bit


def open_metapath(drb: ft.FtDrb, source: int, destination: int) -> None:
    """Give a pair without failures a metapath if its minimal path is slower than Thl + Tol.

    Until then only the minimal path is known. The others are searched for when they are needed.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    pair = source * len(paths.host_router) + destination
    mean = state.latency[pair, 0]
    shortest = settings.threshold * zero_load(drb, 0)
    if mean <= shortest + settings.tolerance * shortest:  # longer paths have higher thresholds
        return
    threshold = threshold_ticks(drb, source, destination)
    if mean <= threshold + settings.tolerance * threshold:
        return
    configure_metapath(drb, source, destination)
    if (
        state.known[pair] > 0
        and state.first_middle[pair, 0] == NONE
        and state.second_middle[pair, 0] == NONE
    ):
        state.latency[pair, 0] = mean
        state.measured[pair] = 1
    if state.active[pair] < state.known[pair]:
        state.active[pair] += 1
        state.counters[ft.GROWN] += 1


def clear_along(drb: ft.FtDrb, source: int, destination: int, first: int, second: int) -> None:
    """Clear the failures of every cable on the multistep path."""
    paths = drb.paths
    state = drb.state
    at = paths.host_router[source]
    target = paths.routers + destination
    for step in range(3):
        goal = leg_end(step, first, second, target)
        if goal == NONE:
            continue
        while at != goal:
            link = next_link(paths.routes, 0, at, goal)
            if link == NONE:
                break
            clear_failure(state, source, paths.cable[link])
            at = paths.link_target[link]


def size_metapath(drb: ft.FtDrb, source: int, destination: int) -> None:
    """Use one more or one less path, depending on the metapath's latency (Zarza 2011, eq. 3.5).

    One more path is used above Thl + Tol, one less below Thl - Tol. With hysteresis, the size
    changes only after all paths in use have reported a latency since the last change. A path is
    then given up only if the remaining paths would be below Thl - Tol without it: the same paths
    were above Thl + Tol when it came into use.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    pair = source * len(paths.host_router) + destination
    active = state.active[pair]
    everything = (1 << active) - 1
    if settings.hysteresis and state.fresh[pair] & everything != everything:
        return
    bandwidth = 0.0
    left = 0.0
    for k in range(active):
        left = bandwidth
        bandwidth += 1.0 / state.latency[pair, k]
    threshold = threshold_ticks(drb, source, destination)
    tolerance = settings.tolerance * threshold
    if 1.0 / bandwidth > threshold + tolerance and active < state.known[pair]:
        state.active[pair] = active + 1
        state.fresh[pair] = 0
        state.counters[ft.GROWN] += 1
    elif active > 1 and 1.0 / (left if settings.hysteresis else bandwidth) < threshold - tolerance:
        state.active[pair] = active - 1
        state.fresh[pair] = 0
        state.counters[ft.SHRUNK] += 1


def threshold_ticks(drb: ft.FtDrb, source: int, destination: int) -> float:
    """Return Thl: a multiple of the zero-load latency of the pair's minimal path."""
    paths = drb.paths
    settings = drb.settings
    links = links_between(paths.routes, paths.host_router[source], paths.routers + destination)
    return float(settings.threshold * zero_load(drb, links))


def links_over(paths: Paths, start: int, first: int, second: int, target: int) -> int:
    """Return the number of links between routers on a multistep path, even if a link failed."""
    links = 0
    at = start
    if first != NONE:
        links += links_between(paths.routes, at, first)
        at = first
    if second != NONE:
        links += links_between(paths.routes, at, second)
        at = second
    return int(links + links_between(paths.routes, at, target))


def zero_load(drb: ft.FtDrb, links: int) -> int:
    """Return the ticks over this many links between routers in an empty network."""
    settings = drb.settings
    return int(settings.base_ticks + settings.hop_ticks * links)


def configure_metapath(drb: ft.FtDrb, source: int, destination: int) -> None:
    """Choose the pair's alternative paths, without listed cables.

    Intermediates near the source or the destination come first, then shorter paths.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    pair = source * len(paths.host_router) + destination
    start = int(paths.host_router[source])
    end = int(paths.host_router[destination])
    state.configured[pair] = state.version[source] + 1
    state.known[pair] = 0
    state.measured[pair] = 0
    state.fresh[pair] = 0
    state.counters[ft.CONFIGURED] += 1
    add_path(drb, source, destination, NONE, NONE)
    if paths.radix > 0:
        add_ancestors(drb, source, destination, start, end)
    else:
        add_supernodes(drb, source, destination, start, end)
    state.active[pair] = min(settings.first_paths, state.known[pair])


def add_ancestors(drb: ft.FtDrb, source: int, destination: int, start: int, end: int) -> None:
    """Add a path over each nearest common ancestor in a k-ary n-tree.

    Their order depends on the pair.
    """
    paths = drb.paths
    spread = 1
    level = 0
    while start // spread != end // spread:
        spread *= paths.radix
        level += 1
    turn = mixed(source, destination)
    for j in range(spread):
        if level > 0:
            ancestor = level * paths.width + start // spread * spread + (turn + j) % spread
            add_path(drb, source, destination, ancestor, NONE)


def add_supernodes(drb: ft.FtDrb, source: int, destination: int, start: int, end: int) -> None:
    """Add paths over intermediates near the source, near the destination, or one of each.

    Intermediates at a distance of one hop come first, then those of two hops.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    pair = source * len(paths.host_router) + destination
    first_low = paths.near_first[start]
    first_high = paths.near_first[start + 1]
    second_low = paths.near_first[end]
    second_high = paths.near_first[end + 1]
    for hops in range(1, 3):
        if hops > 1 and state.known[pair] >= settings.paths:
            return
        for i in range(first_low - 1, first_high):
            if i >= first_low and paths.near_hops[i] > hops:
                break
            first = NONE if i < first_low else int(paths.near[i])
            for j in range(second_low - 1, second_high):
                if j >= second_low and paths.near_hops[j] > hops:
                    break
                second = NONE if j < second_low else int(paths.near[j])
                add_path(drb, source, destination, first, second)


def add_path(drb: ft.FtDrb, source: int, destination: int, first: int, second: int) -> None:
    """Insert a path into the pair's metapath if it is intact, new, and among the shortest.

    The paths are sorted by length; of equally long ones, the path that was added earlier is first.
    """
    paths = drb.paths
    state = drb.state
    settings = drb.settings
    start = int(paths.host_router[source])
    target = int(paths.routers + destination)
    pair = source * len(paths.host_router) + destination
    path_count = state.known[pair]
    if path_count == settings.paths:
        best = zero_load(drb, links_over(paths, start, first, second, target))
        if state.latency[pair, path_count - 1] <= best:
            return
    if state.listed[source] == 0 and paths.routes.dimensions > 0:
        length, signature = measure_straight_path(paths, start, first, second, target)
    else:
        length, signature = measure_path(
            paths, state.notified[source], NONE, start, NONE, first, second, target
        )
    if length == TOO_LONG:
        return
    estimate = zero_load(drb, length)
    for k in range(path_count):
        if state.latency[pair, k] == estimate and state.signature[k] == signature:
            return
    k = path_count
    if path_count == settings.paths:
        k = path_count - 1
        if state.latency[pair, k] <= estimate:
            return
    else:
        state.known[pair] = path_count + 1
    while k > 0 and state.latency[pair, k - 1] > estimate:
        state.first_middle[pair, k] = state.first_middle[pair, k - 1]
        state.second_middle[pair, k] = state.second_middle[pair, k - 1]
        state.latency[pair, k] = state.latency[pair, k - 1]
        state.signature[k] = state.signature[k - 1]
        k -= 1
    state.first_middle[pair, k] = first
    state.second_middle[pair, k] = second
    state.latency[pair, k] = estimate
    state.signature[k] = signature
