"""``testbed schedule``: time frames in which no two transfers share a link.

A liquid schedule has as few frames as the most loaded link has transfers.
"""

import argparse
import itertools
import math
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

# Largest numbers of transfers for the simulation of a wormhole network, for drawings, and for a
# second schedule over balanced routes.
MAX_CARRIED = 200_000
MAX_DRAWN = 20_000
MAX_REROUTED = 20_000
# Default size of a message, in bytes.
MESSAGE_BYTES = 1_000_000
# Largest number of frames that a terminal shows.
MAX_FRAMES = 12
# Number of transfers whose links are named at once. There may be millions of transfers, which must
# not all be in memory.
_NAMED_AT_ONCE = 4096
# Largest number of transfers of a deadlock that are listed.
_LISTED_WAITS = 6
DESCRIPTION = (
    "Schedule the transfers of a network (all-to-all by default) or of a traffic file. A liquid "
    "schedule has as many frames as the link with the most transfers has transfers, and no "
    "schedule is shorter. 'proved' is 'no-liquid-schedule' only after a complete search or if a "
    "model is infeasible. Every schedule is checked independently."
)


def wormhole_document(
    traffic: Traffic,
    schedule: Schedule,
    remedy: str,
    seed: int,
) -> JsonObject:
    """Simulate a schedule in a wormhole network, with barriers between its frames and without.

    Args:
        traffic: The transfers.
        schedule: The schedule of the transfers.
        remedy: The action on a deadlock: "none", "timeout" or "virtual-channels".
        seed: Seed of the random order of transfers.
    """
    if len(traffic) > MAX_CARRIED:
        raise InputError(
            f"--wormhole: {len(traffic)} transfers exceed the limit of {MAX_CARRIED}; "
            "use a smaller network"
        )
    paths = traffic.paths()
    document: JsonObject = {}
    for name, barrier in (("with_barriers", True), ("without_barriers", False)):
        run = run_wormhole(
            paths,
            schedule.frames,
            barrier=barrier,
            remedy=remedy,  # type: ignore[arg-type]
            seed=seed,
        )
        document[name] = _wormhole_run_document(traffic, run)
    return document


def _wormhole_run_document(traffic: Traffic, run: WormholeRun) -> JsonObject:
    carried = len([time for time in run.finished if time is not None])
    deadlock: list[JsonObject] = []
    for wait in run.deadlock:
        document = {
            "transfer": wait.transfer,
            "waits_for": traffic.links[wait.link],
            "held_by": wait.holder,
        }
        deadlock.append(document)
    return {
        "frames": run.duration,
        "carried": carried,
        "throughput_links": carried / run.duration if run.duration else 0.0,
        "deadlock": deadlock,
        "retries": run.retries,
        "virtual_channels": run.channels,
    }


def _figures(
    traffic: Traffic,
    schedule: Schedule,
    network_name: str | None,
    title: str,
) -> Json:
    """Draw the time frames, on small drawings of the network if there is one."""
    if len(traffic) > MAX_DRAWN:
        raise InputError(
            f"--plot: {len(traffic)} transfers exceed the limit of {MAX_DRAWN}; "
            "draw a smaller network"
        )
    network = None if network_name is None else load_network(network_name)
    transfers = list(_transfers(traffic))
    return {"frames": draw_schedule(transfers, schedule.frames, network, title=title)}


def _has_network(args: argparse.Namespace) -> bool:
    return args.network is not None


def _searches_over_network(args: argparse.Namespace) -> bool:
    return _has_network(args) and args.check is None


def _has_equal_messages(args: argparse.Namespace) -> bool:
    return _searches_over_network(args) and args.unequal is None


def _verifies(args: argparse.Namespace) -> bool:
    return args.check is not None


def _searches(args: argparse.Namespace) -> bool:
    return args.check is None


def _uses_wormhole(args: argparse.Namespace) -> bool:
    return bool(args.wormhole)


# Conditions under which options are accepted, and what a message asks for otherwise.
_WITH_NETWORK = Only(
    when=_has_network,
    needs="NETWORK, whose nodes it names (a file has its own transfers)",
)
_ROUTED = Only(when=_searches_over_network, needs="NETWORK, whose transfers are routed")
_TIMED = Only(
    when=_has_equal_messages,
    needs="NETWORK, whose capacities give the time (--message-sizes has other sizes)",
)
_VERIFIED = Only(when=_verifies, needs="--verify FILE")
_SEARCHED = Only(when=_searches, needs="a search: a file to --verify has its transfers already")
_WORMHOLE = Only(when=_uses_wormhole, needs="--wormhole")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to its parser."""
    add = adder(parser)
    add(
        "network",
        metavar="NETWORK",
        nargs="?",
        help="network: a catalogue name (see testbed topology list) or a file",
    )
    _add_traffic(parser)
    _add_routing(parser)
    add_options(parser, SearchOptions)
    _add_message_sizes(parser)
    _add_wormhole(parser)
    add = adder(parser, RUN)
    add(
        "--output",
        type=Path,
        metavar="FILE",
        help="write the transfers and frames to a JSON file, or to an MSCCL algorithm (FILE.xml)",
    )
    add_answer_options(parser)


def _add_traffic(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, SENT)
    add(
        "--pattern",
        default="all-to-all",
        metavar="PATTERN",
        help="transfers: all-to-all or all-to-others of hosts (all-to-all: also to themselves), "
        "all-switches, pairs A:B,C:D, or a JSON file of pairs (default: all-to-all)",
        only=_WITH_NETWORK,
    )
    add(
        "--parts",
        type=kinds.whole(1, 64),
        metavar="K",
        help="number of equal parts of every message, each on its own route (balanced routes by "
        "default)",
        only=_ROUTED,
    )
    add(
        "--traffic",
        type=Path,
        metavar="FILE",
        help='JSON file of transfers, instead of a network: {"transfers": [[link, ...], ...]}',
    )


def _add_routing(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, ROUTED)
    add(
        "--routing",
        metavar="METHOD",
        help="static routing method, or balanced (default: the network's method)",
        only=_ROUTED,
    )
    add(
        "--verify",
        dest="check",
        type=Path,
        metavar="FILE",
        help='check the schedule in a file with "transfers" and "frames", and search for none',
    )
    add(
        "--network",
        dest="verified_over",
        metavar="NETWORK",
        help="check the file of --verify chunk by chunk over this network, and compare it with "
        "the flow bound. The file has transfers and frames, or is MSCCL's XML or TE-CCL's "
        "JSON (pip install ./plugins/collectives)",
        only=_VERIFIED,
    )


def _add_message_sizes(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, SENT)
    add(
        "--message-sizes",
        dest="unequal",
        type=Path,
        metavar="FILE",
        help='JSON file of messages and links that differ: {"sizes_bytes": [...] or one number, '
        '"chunk_bytes": ..., "capacities_bps": {link: ...}}. Chunks are scheduled instead '
        "of messages. The capacities of a network are the default",
        only=_SEARCHED,
    )
    add(
        "--message-size",
        dest="message_bytes",
        type=kinds.size_bytes,
        default=MESSAGE_BYTES,
        metavar="SIZE",
        help="size of every message, for the time of an exchange (default: 1MB)",
        only=_TIMED,
    )


def _add_wormhole(parser: argparse.ArgumentParser) -> None:
    add = adder(parser, ROUTED)
    add(
        "--wormhole",
        action="store_true",
        help="simulate the schedule on a wormhole network",
    )
    add(
        "--on-deadlock",
        dest="remedy",
        choices=("report", "timeout", "virtual-channels"),
        default="report",
        help="reaction to deadlocks of --wormhole (default: report)",
        only=_WORMHOLE,
    )


def run(args: argparse.Namespace) -> Answer:
    """Find a schedule, or check one."""
    _refuse_beside_verify(args)
    if args.verified_over is not None:
        return _verified(args)
    # The keys that options add to the document.
    extras: JsonObject = {}
    traffic, schedule = _checked(args) if args.check else _scheduled(args, extras)
    if args.wormhole:
        remedy = "none" if args.remedy == "report" else args.remedy
        extras["wormhole"] = wormhole_document(traffic, schedule, remedy, args.seed)
    if args.output is not None:
        extras |= _write(args.output, traffic, schedule)
    if args.unequal is None and (args.routing is not None or args.parts is not None):
        extras |= _flow_bound_facts(args, traffic, schedule)
    if args.network is not None and args.unequal is None:
        extras |= _exchange_facts(args, traffic, schedule)
    if "chunks" in extras:
        extras["seconds_per_exchange"] = schedule.length * extras["chunks"]["frame_s"]
        extras["unequal_capacities"] = False
    document: JsonObject = {}
    # The document of a million transfers is large, so it is built only if it is printed or stored.
    if args.json or args.results is not None:
        document = schedule_document(traffic, schedule)
        if args.results is not None:
            document["transfers"] = list(_transfers(traffic))
    title = (
        f"{args.network or args.traffic or args.check}: {len(traffic)} transfers in "
        f"{schedule.length} time frames, {_proof_text(schedule, extras)}"
    )
    figures = None
    if len(traffic) <= MAX_DRAWN or args.plot is not None:
        # The chunks of unequal messages use channels, which are not links of the network.
        network_name = None if args.unequal else args.network
        figures = partial(_figures, traffic, schedule, network_name, title)
    return Answer(
        {**document, **extras},
        partial(_show, traffic, schedule, extras, args.network),
        title=title,
        figures=figures,
    )


def _refuse_beside_verify(args: argparse.Namespace) -> None:
    """Raise InputError for options that contradict ``--verify``.

    Its file contains the transfers and the frames.
    """
    if args.check is None:
        return
    refused = args.network is not None or args.traffic is not None
    if args.verified_over and (args.output is not None or args.wormhole):
        refused = True
    if refused:
        raise InputError(
            "--verify FILE cannot be combined with a network or --traffic, nor over a --network "
            "with --output or --wormhole: the file has the transfers and the frames"
        )


def _exchange_facts(
    args: argparse.Namespace,
    traffic: Traffic,
    schedule: Schedule,
) -> JsonObject:
    """Return the duration of an exchange, and properties of the network that schedules ignore.

    Schedules treat all links as equal. If the links have different capacities, and a shorter
    exchange is therefore possible, the keys ``liquid``, ``proved`` and ``optimal`` of the schedule
    are replaced.
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
    if args.routing is None and args.parts is None and len(traffic) <= MAX_REROUTED:
        idle_links = _idle_links(network, traffic)
        if idle_links:
            facts |= _balanced_facts(args, schedule, idle_links)
    return facts


def _idle_links(network: Network, traffic: Traffic) -> int:
    """Return the number of links between switches that no transfer uses."""
    used = set(traffic.links)
    idle = 0
    for link in network.links:
        between_switches = {link.source, link.target} <= network.switch_ids.keys()
        if between_switches and link.label not in used:
            idle += 1
    return idle


def _balanced_facts(
    args: argparse.Namespace,
    schedule: Schedule,
    idle_links: int,
) -> JsonObject:
    """Return the length of a schedule over balanced routes, or nothing if it is not shorter."""
    balanced = traffic_of_options(args.network, args.pattern, None, "balanced", None)
    if balanced.bottleneck_load >= schedule.length:
        return {}
    with spinner("balanced routing"):
        balanced_schedule = _search(balanced, args)
    if balanced_schedule.length >= schedule.length:
        return {}
    return {
        "length_balanced": balanced_schedule.length,
        "idle_links": idle_links,
        "optimal": False,
    }


def _flow_bound_s(network: Network, traffic: Traffic, message_bytes: int) -> float:
    """Return a lower bound on the duration of an exchange, in seconds.

    It holds for all routes and schedules, and takes the capacities of the links into account.
    """
    from testbed.routing.demands.flow_bound import flow_bound

    slowest_bps = min(link.capacity_bps for link in network.links)
    pairs = traffic.ends[: len(traffic) // traffic.parts]
    with spinner("flow bound"):
        return flow_bound(network, pairs, math.inf) * message_bytes * 8 / slowest_bps


def _remarks(extras: Json, network: str) -> Iterator[str]:
    """Yield a line for each property of the network that the schedule ignores."""
    if extras.get("unequal_capacities"):
        slowest_bps, fastest_bps = extras["capacities_bps"]
        size = extras["message_bytes"]
        yield (
            f"{network}: links of {in_words(slowest_bps, '_bps')} and "
            f"{in_words(fastest_bps, '_bps')} count alike in these frames; with their "
            "capacities no routes and no schedule exchange messages of "
            f"{in_words(size, '_bytes')} in less than {in_words(extras['bound_s'], '_s')} "
            f'(--message-sizes FILE with {{"sizes_bytes": {size}}} reckons with capacities)'
        )
    if "length_balanced" in extras:
        links = "1 link" if extras["idle_links"] == 1 else f"{extras['idle_links']} links"
        yield (
            f"{network}: the routing leaves {links} between switches idle; --routing balanced "
            f"gives {extras['length_balanced']} frames"
        )


def _flow_bound_facts(args: argparse.Namespace, traffic: Traffic, schedule: Schedule) -> JsonObject:
    """Return the keys that compare routes and schedule with a lower bound for all routes.

    The bound assumes messages of equal size and links of equal capacity.
    """
    from testbed.routing.demands.flow_bound import equal_links, flow_bound

    with spinner("flow bound"):
        network = equal_links(load_network(args.network))
        pairs = traffic.ends[: len(traffic) // traffic.parts]
        bound = flow_bound(network, pairs, traffic.bottleneck_load / traffic.parts)
    length = schedule.length / traffic.parts
    return {
        "parts": traffic.parts,
        "flow_bound": bound,
        "messages": length,
        "over_flow_bound": length / bound,
    }


def traffic_of_options(
    network_name: str | None,
    pattern: str,
    file: Path | None,
    routing: str | None,
    parts: int | None,
) -> Traffic:
    """Return the traffic that the options describe.

    Args:
        network_name: NETWORK, or None if there is a file.
        pattern: ``--pattern``: the transfers over the network.
        file: ``--traffic``, or None if there is a network.
        routing: ``--routing``: the method, or None for that of the network.
        parts: ``--parts``: number of parts of each message, or None.

    Raises:
        InputError, TopologyError: The input is bad.
    """
    from testbed.scheduling.traffic.traffic_file import parse_traffic

    if (network_name is None) == (file is None):
        raise InputError("give either NETWORK or --traffic FILE")
    if file is not None:
        return parse_traffic(read_json(file), str(file))
    from testbed.scheduling.traffic import patterns

    assert network_name is not None
    network = load_network(network_name)
    is_routed = routing is not None or parts is not None
    routes = patterns.routes_of(network, routing, parts or 1) if is_routed else ()
    if pattern in patterns.NAMED:
        return patterns.NAMED[pattern](network, *routes)
    return patterns.traffic_of(network, patterns.read_pattern(pattern, network), *routes)


def schedule_document(traffic: Traffic, schedule: Schedule) -> JsonObject:
    """Return the object of ``testbed schedule --json``.

    The names of the links of transfers are looked up only when the object is written.
    """
    return {
        "method": schedule.method,
        "transfers": LazyList(partial(_transfers, traffic)),
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
    """Yield the names of the links of each transfer."""
    for first in range(0, len(traffic), _NAMED_AT_ONCE):
        offsets = traffic.offsets[first : first + _NAMED_AT_ONCE + 1].tolist()
        start = offsets[0]
        links = traffic.indices[start : offsets[-1]].tolist()
        for begin, end in itertools.pairwise(offsets):
            yield tuple(traffic.links[link] for link in links[begin - start : end - start])


def _checked(args: argparse.Namespace) -> tuple[Traffic, Schedule]:
    """Read the transfers and their schedule from the file of ``--verify``, and check them."""
    from testbed.scheduling.traffic.traffic_file import parse_frames, parse_traffic

    document = read_json(args.check)
    traffic = parse_traffic(document, str(args.check))
    return traffic, parse_frames(document, traffic, str(args.check))


def _verified(args: argparse.Namespace) -> Answer:
    """Check a schedule over a network by an installed plug-in.

    The exit code is 1 if the schedule is invalid.
    """
    from testbed.model.file_formats import SCHEDULE_VERIFIERS, find_format

    file = str(args.check)
    verify = find_format(SCHEDULE_VERIFIERS, file)
    if verify is None:
        raise CapabilityError(
            f"{file}: pip install ./plugins/collectives in the project folder; "
            "for .xml and .json files"
        )
    document = dict(verify(file, load_network(args.verified_over)))
    text = document.pop("text")
    title = f"{file} over {args.verified_over}"
    exit_code = 0 if document["valid"] else 1
    return Answer(document, text.splitlines, exit_code, title=title)


def _scheduled(args: argparse.Namespace, extras: JsonObject) -> tuple[Traffic, Schedule]:
    """Find a schedule. If messages are divided into chunks, describe these in ``extras``."""
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
    traffic: Traffic, schedule: Schedule, extras: Json, network_name: str | None
) -> Iterator[Part]:
    yield from _remarks(extras, network_name or "")
    yield _facts(traffic, schedule, extras)
    if "seconds_per_exchange" in extras:
        name = "exchange"
        if "message_bytes" in extras:
            name = f"exchange of {in_words(extras['message_bytes'], '_bytes')}"
        yield {name: in_words(extras["seconds_per_exchange"], "_s")}
    yield _frames_table(traffic, schedule, extras)
    if facts := dict(_extra_facts(extras)):
        yield facts


def _facts(traffic: Traffic, schedule: Schedule, extras: Json) -> dict[str, str]:
    ratio = schedule.length / schedule.bottleneck_load
    bottlenecks = f"({len(traffic.bottlenecks)} bottleneck links)"
    proof = _proof_text(schedule, extras)
    if schedule.detail:
        proof += f" ({schedule.detail})"
    facts = {
        "transfers": f"{len(traffic)} over {len(traffic.links)} links",
        "bottleneck load": f"{traffic.bottleneck_load} {bottlenecks}",
        "liquid throughput": f"{traffic.liquid_throughput:.3f} links",
        "length": f"{schedule.length} frames ({ratio:.3f} of the bottleneck load)",
        "proved": proof,
    }
    if schedule.seconds is not None:
        facts["seconds"] = f"{schedule.seconds:.3f}"
    return facts


def _frames_table(traffic: Traffic, schedule: Schedule, extras: Json) -> Table:
    """Return the table of frames. Transfers are named by their ends, if these are known."""
    if len(traffic.ends) == len(traffic):
        names = [":".join(pair) for pair in traffic.ends]
        heading = "pairs"
    else:
        names = [str(number) for number in range(len(traffic))]
        heading = "numbers of transfers"
    if "chunks" in extras:
        heading = "numbers of chunks"
    rows: list[tuple[int, int, str]] = []
    for number, frame in enumerate(schedule.frames, 1):
        rows.append((number, len(frame), " ".join(names[transfer] for transfer in frame)))
    return Table(
        name="frames",
        title="time frames",
        headings=("frame", "transfers", heading),
        rows=rows,
        spare=("transfers",),
        most=MAX_FRAMES,
    )


def _extra_facts(document: Json) -> Iterator[tuple[str, str]]:
    """Yield the facts that options add: the flow bound, the chunks and the wormhole runs."""
    if "flow_bound" in document:
        bound = document["over_flow_bound"]
        yield (
            "flow bound",
            f"{document['flow_bound']:.6g} messages over a link; the schedule takes as long as "
            f"{document['messages']:.6g} ({bound:.4g} of the bound; "
            f"parts a message: {document['parts']})",
        )
    if "chunks" in document:
        chunks = document["chunks"]
        loss = f"{100 * chunks['loss']:.2f} %"
        bound = f"{100 * chunks['loss_bound']:.2f} %"
        yield (
            "chunks",
            f"of {chunks['chunk_bytes']} bytes, time frames of {chunks['frame_s']:.6g} s; "
            f"a liquid schedule loses {loss} (at most {bound})",
        )
    for name, run in document.get("wormhole", {}).items():
        text = f"{run['frames']:g} frames, {run['throughput_links']:.3f} links"
        yield f"wormhole, {name.replace('_', ' ')}", text + _deadlock_text(run)


def _deadlock_text(run: Json) -> str:
    """Describe the retries or the deadlock of a wormhole run, if it had any."""
    waits: Sequence[Json] = run["deadlock"]
    if not waits:
        return f", {run['retries']} given up and repeated" if run["retries"] else ""
    listed: list[str] = []
    for wait in waits[:_LISTED_WAITS]:
        listed.append(f"{wait['transfer']} waits for {wait['waits_for']} of {wait['held_by']}")
    cycle = ", ".join(listed)
    if len(waits) > _LISTED_WAITS:
        cycle += f" and {len(waits) - _LISTED_WAITS} more"
    return (
        f", then a DEADLOCK of {len(waits)} transfers: {cycle} (try --on-deadlock virtual-channels)"
    )


def _proof_text(schedule: Schedule, extras: Json) -> str:
    """Say what is proved about the schedule, and whether it is optimal."""
    optimal = extras.get("optimal", schedule.optimal)
    optimality = {True: "optimal", False: "not optimal", None: "not known to be optimal"}[optimal]
    if "length_balanced" in extras:
        optimality = "over these routes, not optimal for the network"
    return f"{extras.get('proved', schedule.proved)}, {optimality}"


def _write(path: Path, traffic: Traffic, schedule: Schedule) -> Json:
    """Write the schedule to a file, in the format of its suffix or as JSON.

    Returns:
        The keys that the format adds to the document.
    """
    from testbed.model.file_formats import SCHEDULE_FORMATS, find_format

    extras: Json = {}
    encode = find_format(SCHEDULE_FORMATS, str(path))
    if encode is None:
        document = schedule_document(traffic, schedule)
        written = {key: document[key] for key in ("transfers", "frames")}
        content = "".join(json_pieces(written)).encode()
    else:
        content, extras = encode(traffic, schedule)
    write_atomically(path, content)
    return extras
