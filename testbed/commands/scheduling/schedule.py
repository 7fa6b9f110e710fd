"""``testbed schedule``: time frames in which no two transfers share a link, as few as the bottleneck allows where one
is found."""

import argparse
import itertools
import time
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from testbed.commands.answer import Answer
from testbed.commands.arguments import add_answer_options, add_options, adder
from testbed.errors import CapabilityError, InputError
from testbed.model.json_values import LazyList, json_pieces, read_json
from testbed.model.options import kinds
from testbed.model.options.option import ROUTED, RUN, SENT, Only
from testbed.model.schedule import Schedule
from testbed.model.traffic import Traffic
from testbed.report.answers import Part, Table
from testbed.report.column_units import in_words
from testbed.report.drawing.frame_drawing import draw_schedule
from testbed.report.progress_bar import spinner
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.options import SearchOptions
from testbed.scheduling.wormhole import WormholeRun, run_wormhole
from topologies import Json, JsonObject, Network, load_network
from topologies.files.formats import write_atomically

MAX_CARRIED = 200_000
MAX_DRAWN = 20_000
# Transfers up to which another routing is tried if links are idle.
MAX_REROUTED = 20_000
MESSAGE_BYTES = 1_000_000
MOST_FRAMES = 12
_AT_ONCE = 4096
"""Of a schedule, on a terminal."""


def wormhole_document(traffic: Traffic, schedule: Schedule, remedy: str, seed: int) -> JsonObject:
    """The schedule carried hop by hop, with a barrier between its frames and without."""
    if len(traffic) > MAX_CARRIED:
        raise InputError(
            f"--wormhole: {len(traffic)} transfers exceed the limit of {MAX_CARRIED}; take a smaller network"
        )
    paths = traffic.paths()
    return {
        name: _run_document(
            traffic,
            run_wormhole(paths, schedule.frames, barrier=barrier, remedy=remedy, seed=seed),  # type: ignore[arg-type]
        )
        for name, barrier in (("with_barriers", True), ("without_barriers", False))
    }


def _run_document(traffic: Traffic, run: WormholeRun) -> JsonObject:
    carried = sum(time is not None for time in run.finished)
    return {
        "frames": run.duration,
        "carried": carried,
        "throughput_links": carried / run.duration if run.duration else 0.0,
        "deadlock": [
            {
                "transfer": wait.transfer,
                "waits_for": traffic.links[wait.link],
                "held_by": wait.holder,
            }
            for wait in run.deadlock
        ],
        "retries": run.retries,
        "virtual_channels": run.channels,
    }


def _figures(traffic: Traffic, schedule: Schedule, network: str | None, title: str) -> JsonObject:
    """The time frames; pictograms of the network where there is one."""
    if len(traffic) > MAX_DRAWN:
        raise InputError(
            f"--plot: {len(traffic)} transfers exceed the limit of {MAX_DRAWN}; draw a smaller network"
        )
    found = None if network is None else load_network(network)
    return {"frames": draw_schedule(list(_transfers(traffic)), schedule.frames, found, title=title)}


def _extra_facts(document: Json) -> Iterator[tuple[str, str]]:
    if "flow_bound" in document:
        bound = document["over_flow_bound"]
        yield (
            "flow bound",
            f"{document['flow_bound']:.6g} messages over a link; the schedule takes as long as "
            f"{document['messages']:.6g} ({bound:.4g} of the bound; parts a message: {document['parts']})",
        )
    if "chunks" in document:
        chunks = document["chunks"]
        lost = f"a liquid schedule loses {100 * chunks['loss']:.2f} % (at most {100 * chunks['loss_bound']:.2f} %)"
        yield (
            "chunks",
            f"of {chunks['chunk_bytes']} bytes, time frames of {chunks['frame_s']:.6g} s; {lost}",
        )
    for name, run in document.get("wormhole", {}).items():
        words = f"{run['frames']:g} frames, {run['throughput_links']:.3f} links"
        yield f"wormhole, {name.replace('_', ' ')}", words + _trouble(run)


def _trouble(run: Json) -> str:
    waits: Sequence[Json] = run["deadlock"]
    if not waits:
        return f", {run['retries']} given up and repeated" if run["retries"] else ""
    circle = ", ".join(
        f"{w['transfer']} waits for {w['waits_for']} of {w['held_by']}" for w in waits[:6]
    )
    more = f" and {len(waits) - 6} more" if len(waits) > 6 else ""
    return f", then a DEADLOCK of {len(waits)} transfers: {circle}{more} (try --on-deadlock virtual-channels)"


DESCRIPTION = (
    "Schedule the transfers of a network (all-to-all by default) or of a traffic file. A liquid schedule has as many "
    "frames as the most loaded link has transfers: none can be shorter. 'proved' is 'no-liquid-schedule' only after an "
    "exhausted search or an infeasible model. Every schedule passes an independent checker."
)


_OF_NETWORK = Only(
    when=lambda a: a.network is not None,
    needs="NETWORK, whose nodes it names (files have their transfers)",
)
_ROUTED = Only(
    when=lambda a: a.network is not None and a.check is None, needs="NETWORK, over which it routes"
)


_TIMED = Only(
    when=lambda a: a.network is not None and a.check is None and a.unequal is None,
    needs="NETWORK, whose capacities give the time (--message-sizes has sizes of its own)",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Those of the command."""
    add, sent, routed, running = (adder(parser, group) for group in (None, SENT, ROUTED, RUN))
    add("network", metavar="NETWORK", nargs="?", help="catalogue name or file")
    sent(
        "--pattern",
        default="all-to-all",
        metavar="PATTERN",
        help="all-to-all or all-to-others of hosts (all-to-all: to themselves too), all-switches, pairs of nodes, or a "
        "JSON file of pairs",
        only=_OF_NETWORK,
    )
    routed(
        "--routing",
        metavar="METHOD",
        help="static method, or balanced (default: the network's own)",
        only=_ROUTED,
    )
    sent(
        "--parts",
        type=kinds.whole(1, 64),
        metavar="K",
        help="equal parts of every message, each on a route of its own (balanced ones by default)",
        only=_ROUTED,
    )
    sent(
        "--traffic",
        type=Path,
        metavar="FILE",
        help='instead of a network: {"transfers": [[link, ...], ...]}',
    )
    routed(
        "--verify",
        dest="check",
        type=Path,
        metavar="FILE",
        help='only check a file with "transfers" and "frames"',
    )
    routed(
        "--network",
        dest="verified_over",
        metavar="NETWORK",
        help="check the file chunk by chunk over this network, against the flow bound: transfers and frames, MSCCL's "
        "XML or TE-CCL's JSON (pip install ./plugins/collectives)",
        only=Only(when=lambda a: a.check is not None, needs="--verify FILE"),
    )
    add_options(parser, SearchOptions)
    sent(
        "--message-sizes",
        dest="unequal",
        type=Path,
        metavar="FILE",
        help='messages and links that differ: {"sizes_bytes": [...] or one number, "chunk_bytes": ..., '
        '"capacities_bps": {link: ...}} (a network has capacities of its own); chunks are scheduled, not messages',
        only=Only(
            when=lambda a: a.check is None,
            needs="a search: a file to --verify has its transfers already",
        ),
    )
    sent(
        "--message-size",
        dest="message_bytes",
        type=kinds.size_bytes,
        default=MESSAGE_BYTES,
        metavar="SIZE",
        help="size of every message, for the time of an exchange (default 1MB)",
        only=_TIMED,
    )
    routed(
        "--wormhole",
        action="store_true",
        help="carry the schedule over a wormhole network in virtual time",
    )
    routed(
        "--on-deadlock",
        dest="remedy",
        choices=("report", "timeout", "virtual-channels"),
        default="report",
        help="what is done about deadlocks of --wormhole",
        only=Only(when=lambda a: a.wormhole, needs="--wormhole"),
    )
    running(
        "--output",
        type=Path,
        metavar="FILE",
        help="write transfers and frames as JSON; FILE.xml: an algorithm of MSCCL",
    )
    add_answer_options(parser)


def run(args: argparse.Namespace) -> Answer:
    """Schedule, or check."""
    others = (
        args.network,
        args.traffic,
        *((args.output, args.wormhole or None) if args.verified_over else ()),
    )
    if args.check is not None and any(one is not None for one in others):
        words = "a network or --traffic, nor over a --network with --output or --wormhole"
        raise InputError(
            f"--verify FILE cannot be combined with {words}: the file has the transfers and the frames"
        )
    if args.verified_over is not None:
        return _verified(args)
    extras: JsonObject = {}
    traffic, schedule = _checked(args) if args.check else _scheduled(args, extras)
    if args.wormhole:
        extras["wormhole"] = wormhole_document(
            traffic, schedule, "none" if args.remedy == "report" else args.remedy, args.seed
        )
    if args.output is not None:
        extras |= _write(args.output, traffic, schedule)
    if args.unequal is None and (args.routing is not None or args.parts is not None):
        extras |= _bounded(args, traffic, schedule)
    if args.network is not None and args.unequal is None:
        extras |= _timed(args, traffic, schedule)
    if "chunks" in extras:
        frame_s = extras["chunks"]["frame_s"]
        extras |= {
            "seconds_per_exchange": schedule.length * frame_s,
            "unequal_capacities": False,
        }
    document: JsonObject = {}
    if args.json or args.results is not None:  # the document of a million transfers is large
        document = schedule_document(traffic, schedule)
        if args.results is not None:
            document["transfers"] = list(_transfers(traffic))
    title = f"{args.network or args.traffic or args.check}: {len(traffic)} transfers in {schedule.length} time frames, "
    title += _proved(schedule, extras)
    drawn = partial(_figures, traffic, schedule, None if args.unequal else args.network, title)
    figures = drawn if len(traffic) <= MAX_DRAWN or args.plot is not None else None
    return Answer(
        {**document, **extras},
        partial(_show, traffic, schedule, extras, args.network),
        title=title,
        figures=figures,
    )


def _timed(args: argparse.Namespace, traffic: Traffic, schedule: Schedule) -> JsonObject:
    """Return the time of an exchange and what the schedule did not take into account.

    The keys ``liquid``, ``proved`` and ``optimal`` of the schedule are replaced if links of
    different capacity counted alike and the schedule takes longer than they need.
    """
    from testbed.scheduling.exchange_time import exchange_time

    network = load_network(args.network)
    capacities = {link.label: link.capacity_bps for link in network.links}
    exchange = exchange_time(traffic, schedule, capacities, args.message_bytes)
    facts: JsonObject = {
        "message_bytes": args.message_bytes,
        "seconds_per_exchange": exchange.seconds,
        "unequal_capacities": exchange.unequal,
    }
    if exchange.unequal:
        bound_s = _flow_bound_s(network, traffic, args.message_bytes)
        facts["bound_s"] = bound_s
        facts["capacities_bps"] = [exchange.slowest_bps, exchange.fastest_bps]
        if exchange.seconds > bound_s * (1 + 1e-9):
            facts |= {"liquid": False, "proved": "unknown", "optimal": None}
    used = set(traffic.links)
    idle = [
        link.label
        for link in network.links
        if link.label not in used and {link.source, link.target} <= network.switch_ids.keys()
    ]
    if idle and args.routing is None and args.parts is None and len(traffic) <= MAX_REROUTED:
        balanced = traffic_of_options(args.network, args.pattern, None, "balanced", None)
        if balanced.bottleneck_load < schedule.length:
            with spinner("balanced routing"):
                shorter = _search(balanced, args)
            if shorter.length < schedule.length:
                facts |= {"length_balanced": shorter.length, "idle_links": len(idle)}
                facts |= {"optimal": False}
    return facts


def _flow_bound_s(network: Network, traffic: Traffic, message_bytes: int) -> float:
    """Return the time that no routes and no schedule beat, with the links' capacities."""
    from testbed.routing.demands.flow_bound import flow_bound

    slowest = min(link.capacity_bps for link in network.links)
    pairs = traffic.ends[: len(traffic) // traffic.parts]
    with spinner("flow bound"):
        return flow_bound(network, pairs, float("inf")) * message_bytes * 8 / slowest


def _remarks(extras: Json, network: str) -> Iterator[str]:
    """Yield a line for each thing that the schedule did not take into account."""
    if extras.get("unequal_capacities"):
        slow, fast = (in_words(rate, "_bps") for rate in extras["capacities_bps"])
        size = extras["message_bytes"]
        yield (
            f"{network}: links of {slow} and {fast} count alike in these frames; with their "
            f"capacities no routes and no schedule exchange messages of {in_words(size, '_bytes')} in "
            f"less than {in_words(extras['bound_s'], '_s')} "
            f'(--message-sizes FILE with {{"sizes_bytes": {size}}} reckons with capacities)'
        )
    if "length_balanced" in extras:
        idle = extras["idle_links"]
        links = "1 link" if idle == 1 else f"{idle} links"
        yield (
            f"{network}: the routing leaves {links} between switches idle; --routing balanced "
            f"gives {extras['length_balanced']} frames"
        )


def _bounded(args: argparse.Namespace, traffic: Traffic, schedule: Schedule) -> JsonObject:
    """How near routes and schedule are to what any routes could do; of messages and links that are alike."""
    from testbed.routing.demands.flow_bound import equal_links, flow_bound

    with spinner("flow bound"):
        pairs = traffic.ends[: len(traffic) // traffic.parts]
        bound = flow_bound(
            equal_links(load_network(args.network)), pairs, traffic.bottleneck_load / traffic.parts
        )
    length = schedule.length / traffic.parts
    return {
        "parts": traffic.parts,
        "flow_bound": bound,
        "messages": length,
        "over_flow_bound": length / bound,
    }


def traffic_of_options(
    network: str | None, pattern: str, file: Path | None, routing: str | None, parts: int | None
) -> Traffic:
    """The traffic that NETWORK with --pattern, or --traffic, names. Raises InputError or TopologyError."""
    from testbed.scheduling.traffic.traffic_file import parse_traffic

    if (network is None) == (file is None):
        raise InputError("give either NETWORK or --traffic FILE")
    if file is not None:
        return parse_traffic(read_json(file), str(file))
    from testbed.scheduling.traffic import patterns

    assert network is not None
    found = load_network(network)
    routes = (
        () if routing is None and parts is None else patterns.routes_of(found, routing, parts or 1)
    )
    if pattern in patterns.NAMED:
        return patterns.NAMED[pattern](found, *routes)
    return patterns.traffic_of(found, patterns.read_pattern(pattern, found), *routes)


def schedule_document(traffic: Traffic, schedule: Schedule) -> JsonObject:
    """The object of ``testbed schedule --json``, whose transfers are named as they are written."""
    return {
        "method": schedule.method,
        "transfers": LazyList(lambda: _transfers(traffic)),
        "frames": schedule.frames,
        "length": schedule.length,
        "bottleneck_load": schedule.bottleneck_load,
        "liquid_throughput": traffic.liquid_throughput,
        "liquid": schedule.liquid,
        "proved": schedule.proved,
        "optimal": schedule.optimal,
        "detail": schedule.detail,
        "seconds": schedule.seconds,
    }


def _transfers(traffic: Traffic) -> Iterator[tuple[str, ...]]:
    """Names of each one's links, some thousand at a time: millions of them are never held together."""
    for first in range(0, len(traffic), _AT_ONCE):
        at = traffic.offsets[first : first + _AT_ONCE + 1].tolist()
        flat = traffic.indices[at[0] : at[-1]].tolist()
        for a, b in itertools.pairwise(at):
            yield tuple(traffic.links[link] for link in flat[a - at[0] : b - at[0]])


def _checked(args: argparse.Namespace) -> tuple[Traffic, Schedule]:
    from testbed.scheduling.traffic.traffic_file import parse_frames, parse_traffic

    document = read_json(args.check)
    traffic = parse_traffic(document, str(args.check))
    return traffic, parse_frames(document, traffic, str(args.check))


def _verified(args: argparse.Namespace) -> Answer:
    """What a package of ours says of the file's schedule; 1 where it does not hold."""
    from testbed.model.file_formats import SCHEDULE_VERIFIERS, find_format

    file = str(args.check)
    if (verify := find_format(SCHEDULE_VERIFIERS, file)) is None:
        raise CapabilityError(
            f"{file}: pip install ./plugins/collectives in the project folder; for .xml and .json files"
        )
    found = dict(verify(file, load_network(args.verified_over)))
    text = found.pop("text")
    title = f"{file} over {args.verified_over}"
    return Answer(found, text.splitlines, 0 if found["valid"] else 1, title=title)


def _scheduled(args: argparse.Namespace, extras: JsonObject) -> tuple[Traffic, Schedule]:
    traffic = traffic_of_options(args.network, args.pattern, args.traffic, args.routing, args.parts)
    if args.unequal is not None:
        from testbed.commands.scheduling.unequal_messages import chunks_document, split_traffic

        traffic, chunks = split_traffic(
            read_json(args.unequal), str(args.unequal), traffic, args.network
        )
        extras["chunks"] = chunks_document(chunks)
    with spinner(
        f"{args.method}: {len(traffic)} transfers, bottleneck load {traffic.bottleneck_load}"
    ):
        return traffic, _search(traffic, args)


def _search(traffic: Traffic, args: argparse.Namespace) -> Schedule:
    return schedule_by_name(
        traffic,
        args.method,
        seed=args.seed,
        time_limit_s=args.time_limit_s,
        now=time.perf_counter,
    )


def _show(
    traffic: Traffic, schedule: Schedule, extras: Json, network: str | None
) -> Iterator[Part]:
    ratio = schedule.length / schedule.bottleneck_load
    yield from _remarks(extras, network or "")
    yield {
        "transfers": f"{len(traffic)} over {len(traffic.links)} links",
        "bottleneck load": f"{traffic.bottleneck_load} ({len(traffic.bottlenecks)} bottleneck links)",
        "liquid throughput": f"{traffic.liquid_throughput:.3f} links",
        "length": f"{schedule.length} frames ({ratio:.3f} of the bottleneck load)",
        "proved": _proved(schedule, extras) + (f" ({schedule.detail})" if schedule.detail else ""),
    } | ({} if schedule.seconds is None else {"seconds": f"{schedule.seconds:.3f}"})
    if "seconds_per_exchange" in extras:
        name = "exchange"
        if "message_bytes" in extras:
            name = f"exchange of {in_words(extras['message_bytes'], '_bytes')}"
        yield {name: in_words(extras["seconds_per_exchange"], "_s")}
    named = (
        traffic.ends
        if len(traffic.ends) == len(traffic)
        else [(str(k),) for k in range(len(traffic))]
    )
    members = "pairs" if len(traffic.ends) == len(traffic) else "numbers of transfers"
    if "chunks" in extras:
        members = "numbers of chunks"
    rows = [
        (number, len(frame), " ".join(":".join(named[transfer]) for transfer in frame))
        for number, frame in enumerate(schedule.frames, 1)
    ]
    yield Table(
        name="frames",
        title="time frames",
        headings=("frame", "transfers", members),
        rows=rows,
        spare=("transfers",),
        most=MOST_FRAMES,
    )
    if facts := dict(_extra_facts(extras)):
        yield facts


def _proved(schedule: Schedule, extras: Json) -> str:
    optimal = extras.get("optimal", schedule.optimal)
    best = {True: "optimal", False: "not optimal", None: "not known to be optimal"}[optimal]
    if "length_balanced" in extras:
        best = "over these routes, not optimal for the network"
    return f"{extras.get('proved', schedule.proved)}, {best}"


def _write(path: Path, traffic: Traffic, schedule: Schedule) -> Json:
    """In the format that the name's ending asks for, or as JSON; what the format adds to the JSON object."""
    from testbed.model.file_formats import SCHEDULE_FORMATS, find_format

    added: Json = {}
    if (written := find_format(SCHEDULE_FORMATS, str(path))) is None:
        document = schedule_document(traffic, schedule)
        content = "".join(
            json_pieces({key: document[key] for key in ("transfers", "frames")})
        ).encode()
    else:
        content, added = written(traffic, schedule)
    write_atomically(path, content)
    return added
