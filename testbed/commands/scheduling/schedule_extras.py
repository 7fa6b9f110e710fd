"""What ``testbed schedule`` can do beside scheduling: unequal messages and links, a wormhole run of the schedule, a
drawing."""

from __future__ import annotations

import argparse
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.arguments import adder
from testbed.errors import InputError
from testbed.model.options.option import ROUTED, RUN, SENT, Only
from testbed.model.schemas import refuse_unknown

if TYPE_CHECKING:
    from testbed.model.schedule import Schedule
    from testbed.model.traffic import Traffic
    from testbed.scheduling.fast.unequal import Chunks
    from testbed.scheduling.wormhole import WormholeRun

PICTURES = (".svg", ".png", ".pdf")
MAX_CARRIED = 200_000
MAX_DRAWN = 20_000


def add_extras(parser: argparse.ArgumentParser) -> None:
    """The options ``--message-sizes``, ``--wormhole``, ``--on-deadlock`` and ``--plot``."""
    sent, routed, running = (adder(parser, group) for group in (SENT, ROUTED, RUN))
    sent(
        "--message-sizes",
        dest="unequal",
        type=Path,
        metavar="FILE",
        help='messages and links that differ: {"sizes_bytes": [...] or one number, "chunk_bytes": ..., '
        '"capacities_bps": {link: ...}} (a network has capacities of its own); chunks are scheduled, not messages',
        only=Only(when=lambda a: a.check is None, needs="a search: a file to --verify has its transfers already"),
    )
    routed("--wormhole", action="store_true", help="carry the schedule over a wormhole network in virtual time")
    routed(
        "--on-deadlock",
        dest="remedy",
        former=("--remedy none=report timeout virtual-channels",),
        choices=("report", "timeout", "virtual-channels"),
        default="report",
        help="what is done about deadlocks of --wormhole",
        only=Only(when=lambda a: a.wormhole, needs="--wormhole"),
    )
    running("--plot", dest="draw", type=Path, metavar="FILE", help="draw the time frames (.svg, .png or .pdf)")


def check_extras(args: argparse.Namespace) -> None:
    """Refuse what can be refused before anything is computed."""
    if args.draw is not None and args.draw.suffix not in PICTURES:
        raise InputError(f"--plot {args.draw}: give a name that ends in {', '.join(PICTURES)}")
    if args.draw is not None and not args.draw.absolute().parent.is_dir():
        raise InputError(f"--plot {args.draw}: there is no directory {args.draw.parent}; make it")


def split_traffic(document: Any, where: str, traffic: Traffic, network: str | None) -> tuple[Traffic, Chunks]:
    """The traffic of chunks over channels (``link`` or ``link/number``), and what it loses. InputError for a bad
    document."""
    from testbed.model.traffic import Traffic
    from testbed.scheduling.fast.unequal import split_messages

    if not isinstance(document, Mapping):
        raise InputError(f"{where}: give an object with sizes_bytes; testbed schema unequal has its keys")
    refuse_unknown(document, "unequal", where)
    sizes = document.get("sizes_bytes")
    if isinstance(sizes, int) and not isinstance(sizes, bool):
        sizes = [sizes] * len(traffic)
    if not isinstance(sizes, list) or not all(isinstance(s, int) and not isinstance(s, bool) for s in sizes):
        raise InputError(f"{where}: sizes_bytes: give a whole number, or a list of one for each transfer")
    chunk = document.get("chunk_bytes", min(sizes, default=0))
    if not isinstance(chunk, int) or isinstance(chunk, bool):
        raise InputError(f"{where}: chunk_bytes {chunk!r}: give a whole number")
    capacities: dict[Hashable, float] = {**_capacities(network), **_positive(document.get("capacities_bps", {}), where)}
    rate = document.get("channel_bps")
    paths = [[traffic.links[link] for link in path] for path in traffic.paths()]
    chosen = None if rate is None else _positive({"channel_bps": rate}, where)["channel_bps"]
    chunks = split_messages(paths, sizes, capacities, chunk_bytes=chunk, channel_bps=chosen)
    names = [
        [f"{link}/{number}" if chunks.channels[link] > 1 else str(link) for link, number in transfer]
        for transfer in chunks.transfers
    ]
    return Traffic.from_transfers(names), chunks


def _capacities(network: str | None) -> dict[Hashable, float]:
    if network is None:
        return {}
    from topologies import load_network

    return {link.label: link.capacity_bps for link in load_network(network).links}


def _positive(found: Any, where: str) -> dict[Hashable, float]:
    if not isinstance(found, Mapping):
        raise InputError(f"{where}: capacities_bps: give an object of links and their bit/s")
    for link, value in found.items():
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value < float("inf"):
            raise InputError(f"{where}: {link}: {value!r} is no rate; give bit/s above 0")
    return dict(found)


def chunks_document(chunks: Chunks) -> dict[str, Any]:
    """What ``--message-sizes`` adds to the JSON object; times in seconds, exact values rounded to floats."""
    return {
        "chunk_bytes": chunks.chunk_bytes,
        "channel_bps": float(chunks.channel_bps),
        "message": list(chunks.message),
        "frame_s": float(chunks.frame_s),
        "liquid_s": float(chunks.liquid_s),
        "fluid_s": float(chunks.fluid_s),
        "loss": float(chunks.loss),
        "loss_bound": float(chunks.bound),
    }


def wormhole_document(traffic: Traffic, schedule: Schedule, remedy: str, seed: int) -> dict[str, Any]:
    """The schedule carried hop by hop, with a barrier between its frames and without."""
    from testbed.scheduling.wormhole import run_wormhole

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


def _run_document(traffic: Traffic, run: WormholeRun) -> dict[str, Any]:
    carried = sum(time is not None for time in run.finished)
    return {
        "frames": run.duration,
        "carried": carried,
        "throughput_links": carried / run.duration if run.duration else 0.0,
        "deadlock": [
            {"transfer": wait.transfer, "waits_for": traffic.links[wait.link], "held_by": wait.holder}
            for wait in run.deadlock
        ],
        "retries": run.retries,
        "virtual_channels": run.channels,
    }


def draw(path: Path, traffic: Traffic, schedule: Schedule, network: str | None) -> None:
    """The time frames as a picture; pictograms of the network where there is one."""
    from testbed.report.drawing.frame_drawing import save_schedule
    from topologies import load_network

    if len(traffic) > MAX_DRAWN:
        raise InputError(f"--plot: {len(traffic)} transfers exceed the limit of {MAX_DRAWN}; draw a smaller network")
    transfers = [[traffic.links[link] for link in transfer] for transfer in traffic.paths()]
    title = f"{network or 'traffic'}: {len(traffic)} transfers in {schedule.length} time frames ({schedule.method})"
    found = None if network is None else load_network(network)
    save_schedule(path, transfers, schedule.frames, found, title=title)


def show_extras(document: Mapping[str, Any]) -> None:
    """Lines for people."""
    if "chunks" in document:
        chunks = document["chunks"]
        print(
            f"chunks             of {chunks['chunk_bytes']} bytes, time frames of {chunks['frame_s']:.6g} s; "
            f"a liquid schedule loses {100 * chunks['loss']:.2f} % (at most {100 * chunks['loss_bound']:.2f} %)"
        )
    for name, run in document.get("wormhole", {}).items():
        words = f"wormhole, {name.replace('_', ' '):<17}"
        print(f"{words} {run['frames']:g} frames, {run['throughput_links']:.3f} links" + _trouble(run))


def _trouble(run: Mapping[str, Any]) -> str:
    waits: Sequence[Mapping[str, Any]] = run["deadlock"]
    if not waits:
        return f", {run['retries']} given up and repeated" if run["retries"] else ""
    circle = ", ".join(f"{w['transfer']} waits for {w['waits_for']} of {w['held_by']}" for w in waits[:6])
    more = f" and {len(waits) - 6} more" if len(waits) > 6 else ""
    return f", then a DEADLOCK of {len(waits)} transfers: {circle}{more} (try --on-deadlock virtual-channels)"
