"""``testbed simulate``: packets through routers with finite buffers and credits, with NAC, virtual channels or no deadlock avoidance.

Seeds are run over the machine's cores; the command prints means with 95 % confidence intervals and a verdict.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.commands.interconnect.simulate_options import (
    add_fault_options,
    add_ft_drb_options,
    add_nac_options,
    ft_drb_options,
    nac_options,
    split_faults,
    trace_summary,
)
from testbed.commands.live import add_live, start_live
from testbed.commands.runs import show_place
from testbed.errors import InputError
from testbed.model.json_values import read_json
from testbed.model.options import kinds
from testbed.model.schemas import refuse_unknown
from topologies.files.formats import write_whole

if TYPE_CHECKING:
    from testbed.interconnect.experiment import Experiment
    from testbed.interconnect.parameters import SimulationParameters
    from testbed.model.verdict import Verdict
    from topologies import Network

DESCRIPTION = (
    "Simulate an interconnection network: virtual cut-through routers with finite buffers and credits, on tori, meshes, rings, fat "
    "trees or any other network. Packets move by dimension order, d-mod-k, random ways up a fat tree (nca), a table or FT-DRB; deadlocks are avoided by NAC, by "
    "virtual channels with a dateline, or not at all (then a watchdog reports them). docs/workloads/interconnect.md has the models of a hop."
)

TIMELINE_EVENTS = 100_000
OF_MESSAGES = ("messages", "transfers", "frames")
"""Keys of a traffic file; a format of other programs adds its own."""


def add_parser(subparsers: argparse._SubParsersAction[Any]) -> None:
    """Adds the command to the parser."""
    parser = subparsers.add_parser("simulate", help="simulate an interconnection network", description=DESCRIPTION)
    add = parser.add_argument
    add("network", metavar="NETWORK", help="a catalogue name (torus:8x8, ring:8, fat-tree:4,3, ...) or a file")
    add(
        "--pattern",
        help="uniform (default), bit-reversal, shuffle, butterfly, transpose, complement, tornado, scatter, gather",
    )
    add(
        "--traffic",
        metavar="FILE",
        help='messages or a schedule instead: {"messages": [...]}, {"transfers": ...} or {"frames": ...}; NAME.et: a Chakra trace '
        "(NAME.0.et, NAME.1.et, ... or .et.json), whose messages wait for each other",
    )
    add("--rate", type=kinds.sending_rate, default=0.1, help="of every sender, on average (default 0.1)")
    add(
        "--rates",
        type=kinds.rates,
        metavar="A:B:STEP",
        help="one after another instead, as in 0.1:0.9:0.1; drawn over the load",
    )
    add("--rate-unit", default="fraction", choices=("fraction", "packets/s"), help="of a link, or packets a second")
    add("--injection", default="poisson", choices=("poisson", "periodic", "burst"), help="when messages are made")
    add("--burst", type=kinds.count, default=1, metavar="N", help="messages a burst (with --injection burst)")
    add("--in-phase", action="store_true", help="all senders at the same moments (periodic and burst)")
    add(
        "--routing",
        help="dor, d-mod-k, nca, table, shortest-path, ft-drb, up-down, odd-even, minimal-adaptive, dateline, distance-classes, valiant, ugal or a plug-in's (default: the network's own)",
    )
    add(
        "--deadlock",
        default="none",
        choices=("none", "nac", "virtual-channels", "bubble", "disha"),
        help="how deadlocks are avoided, or recovered from",
    )
    add(
        "--virtual-channels",
        type=kinds.virtual_channels,
        metavar="N",
        help="of every link (default 2 with a dateline, else 1)",
    )
    add(
        "--model",
        default="booksim",
        choices=("booksim", "thesis"),
        help="delays and buffers of a hop (default booksim)",
    )
    add("--packet-bytes", type=kinds.size_bytes, default=2048, metavar="B", help="default 2048")
    add(
        "--buffer-bytes",
        type=kinds.size_bytes,
        default=4096,
        metavar="B",
        help="of every (virtual) channel (default 4096)",
    )
    add("--link-bps", type=kinds.rate_bps, default=2e9, metavar="BPS", help="of every link (default 2e9)")
    add("--arbitration", default="round-robin", choices=("round-robin", "fifo"))
    add(
        "--duration",
        type=kinds.simulated,
        metavar="S",
        help="how long messages are generated (default: about 1500 messages per node, at most 1 s)",
    )
    add(
        "--warm-up",
        type=kinds.warm_up,
        metavar="S",
        help="messages made before do not count (default: a fifth of the duration)",
    )
    add("--seed", type=kinds.seed, default=1, help="first seed (default 1)")
    add("--seeds", type=kinds.some, default=1, metavar="N", help="runs, seeds one after another (default 1)")
    add("--results", type=Path, default=Path("results"), help="where runs are kept (default results)")
    add("--json", action="store_true", help="print one JSON object on stdout")
    add_live(parser)
    add_fault_options(parser)
    add_ft_drb_options(parser)
    add_nac_options(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code: 0 all delivered and none deadlocked, 1 not, 2 bad input."""
    from testbed.commands.runs import keep_run
    from testbed.interconnect.experiment import judge_runs
    from testbed.interconnect.figures import simulation_figures

    experiments = [_experiment(args, rate) for rate in args.rates or (args.rate,)]
    experiment = experiments[0]

    if args.nac_timeline is not None and not args.nac_timeline.parent.is_dir():
        raise InputError(f"--nac-timeline {args.nac_timeline}: no such directory; give a file in one that exists")
    start_live(args)
    rows = _all_rows(args, experiments)
    verdict = judge_runs(rows)
    if args.nac_timeline is not None:
        _write_timeline(args.nac_timeline, rows)
    directory = keep_run(args, "simulate", rows, verdict, simulation_figures)
    document = _document(args, experiment, rows, verdict) | {"results": str(directory)}
    if args.rates:  # a mean over loads means nothing
        names = ("mean_latency_s", "mean_latency_interval_s", "network_latency_s", "network_latency_interval_s")
        document |= dict.fromkeys((*names, "throughput", "throughput_interval", "rate_packets_per_s"))
        document["loads"] = [_load(args, one, rows) for one in experiments]
    if args.json:
        print(json.dumps(document))
    else:
        _print(document, rows, verdict)
        show_place(directory)
    return verdict.exit_code


def _all_rows(args: argparse.Namespace, experiments: Sequence[Experiment]) -> list[dict[str, Any]]:
    """The rows of one load after another."""
    from testbed.live.adapters.feed import shown
    from testbed.live.scenes import network_scene
    from testbed.model.progress import Progress, Reading

    rows: list[dict[str, Any]] = []
    title = f"{args.network}: {args.pattern or args.traffic or 'uniform'}, deadlock avoidance {args.deadlock}"
    with shown("simulate", partial(network_scene, title, experiments[0].network, {})) as report_progress:
        for number, one in enumerate(experiments):
            if report_progress is not None:
                load = one.rate_per_s / one.parameters.packets_per_s(1.0)
                reading = Reading(figures=_figures(rows))
                words = f"load {load:.3g}, {args.seeds} seed{'s' * (args.seeds > 1)}"
                report_progress(Progress(done_s=number, total_s=len(experiments), doing=words, reading=reading))
            rows += _rows(args, one)
    return rows


def _figures(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Of the last row, as a live page shows them."""
    if not rows or rows[-1]["mean_latency_s"] is None:
        return {}
    last = rows[-1]
    names = {f"Latency at load {last['load']:.3g}, us": 1e6 * last["mean_latency_s"], "Throughput": last["throughput"]}
    return {name: float(value) for name, value in names.items()}


def _rows(args: argparse.Namespace, experiment: Experiment) -> list[dict[str, Any]]:
    from testbed.results.simulation_seeds import run_seeds

    seeds = range(args.seed, args.seed + args.seeds)
    return run_seeds(experiment, seeds, processes=min(args.seeds, os.cpu_count() or 1))


def _load(args: argparse.Namespace, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """One load of --rates: its means over the seeds."""
    from testbed.interconnect.experiment import judge_runs

    load = experiment.rate_per_s / experiment.parameters.packets_per_s(1.0)
    own = [row for row in rows if row["load"] == load]
    found = _document(args, experiment, own, judge_runs(own))
    names = ("mean_latency_s", "mean_latency_interval_s", "throughput", "throughput_interval", "deadlocked")
    return {"load": load} | {name: found[name] for name in names}


def _experiment(args: argparse.Namespace, asked_rate: float) -> Experiment:
    from testbed.interconnect.experiment import Experiment, own_routing
    from testbed.interconnect.parameters import SimulationParameters
    from topologies import load_network

    network = load_network(args.network)
    if args.pattern is not None and args.traffic is not None:
        raise InputError("--pattern and --traffic: give one of them")
    if args.rate_unit == "fraction" and not 0 < asked_rate <= 1:
        raise InputError(
            f"--rate {asked_rate:g}: a fraction of a link; give more than 0, at most 1, or --rate-unit packets/s"
        )
    parameters = SimulationParameters(
        model=args.model,
        routing=args.routing or own_routing(network),
        deadlock=args.deadlock,
        virtual_channels=args.virtual_channels,
        link_bps=args.link_bps,
        packet_bytes=args.packet_bytes,
        buffer_bytes=args.buffer_bytes,
        arbitration=args.arbitration,
        nac=nac_options(args),
        ft_drb=ft_drb_options(args),
    )
    rate = parameters.packets_per_s(asked_rate) if args.rate_unit == "fraction" else asked_rate
    if not 0 < rate <= parameters.packets_per_s(1.0) * (1 + 1e-9):
        raise InputError(
            f"--rate {asked_rate:g} {args.rate_unit}: more than 0, and at most a full link, {parameters.packets_per_s(1.0):.6g} packets/s"
        )
    duration = args.duration if args.duration is not None else min(1.0, max(1500 / rate, 1e-4))
    warm_up = args.warm_up if args.warm_up is not None else duration / 5
    if not 0 < duration <= 18 or not 0 <= warm_up < duration:
        raise InputError(
            f"--duration {duration:g}, --warm-up {warm_up:g}: give a duration up to 18 s, longer than the warm-up"
        )
    faults, trace = split_faults(args)
    traffic, timed = _read_traffic(args.traffic, network, parameters, failing=bool(faults or trace))
    if traffic is not None and timed:  # all of it is measured unless options say otherwise
        last = max(message["time_s"] for message in traffic["messages"])
        duration = args.duration if args.duration is not None else max(1e-6, 1.1 * last)
        warm_up = 0.0 if args.warm_up is None else args.warm_up
    return Experiment(
        network=network,
        parameters=parameters,
        pattern=args.pattern or "uniform",
        traffic=traffic,
        rate_per_s=rate,
        injection=args.injection,
        burst=args.burst,
        in_phase=args.in_phase,
        faults=faults,
        trace=trace,
        trace_permanent=bool(args.trace_permanent),
        timeline=0 if args.nac_timeline is None else TIMELINE_EVENTS,
        duration_s=duration,
        warm_up_s=warm_up,
    )


def _read_traffic(
    path: str | None, network: Network, parameters: SimulationParameters, *, failing: bool
) -> tuple[Mapping[str, Any] | None, bool]:
    """The messages; whether they are another program's, whose starts were found on this network."""
    from testbed.model.file_formats import TRAFFIC_FORMATS, find_format

    if path is None:
        return None, False
    if (other := find_format(TRAFFIC_FORMATS, path)) is not None:
        if failing:
            raise InputError(f"--traffic {path}: starts are found without failures; leave them out")
        return other.read(path, network, parameters), True
    document = read_json(path, f"--traffic {path}", mend="give a JSON file")
    if not isinstance(document, dict):
        raise InputError(f'--traffic {path}: give an object with "messages", "transfers" or "frames"')
    refuse_unknown(document, "messages", f"--traffic {path}")
    return document, False


def _write_timeline(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """A line an event; the events leave the rows, which go on to the report."""
    lines = ["seed,time_s,event,router,input_link\n"]
    for row in rows:
        for time_s, event, router, link in row.pop("nac_timeline"):
            lines.append(f"{row['seed']},{time_s:.11f},{event},{router},{link}\n")
    write_whole(path, "".join(lines).encode())


def _document(
    args: argparse.Namespace, experiment: Experiment, rows: Sequence[Mapping[str, Any]], verdict: Verdict
) -> dict[str, Any]:
    from testbed.interconnect.experiment import simulation_document

    named = {} if args.traffic is None else {"pattern": args.traffic}
    named |= {name: value for name, value in (experiment.traffic or {}).items() if name not in OF_MESSAGES}
    return simulation_document(experiment, rows, verdict) | named | {"trace": trace_summary(experiment.trace)}


def _skipped(rows: Sequence[int]) -> str:
    if not rows:
        return "no row skipped"
    named = ", ".join(map(str, rows[:5])) + (", ..." if len(rows) > 5 else "")
    return f"{len(rows)} bad row{'s' if len(rows) > 1 else ''} skipped ({named})"


def _print(document: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], verdict: Verdict) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from testbed.commands.runs import show_checks
    from testbed.report.terminal import Terminal

    console = Terminal()
    console.print(
        f"{document['network']}, {document['pattern']}, {document['routing']}, deadlock avoidance {document['deadlock_avoidance']}, "
        f"model {document['model']}"
        + (
            f": loads {document['loads'][0]['load']:g} to {document['loads'][-1]['load']:g}"
            if "loads" in document
            else f": {document['rate_packets_per_s']:.6g} packets/s a node for {document['duration_s']:g} s"
        )
    )
    if document["trace"] is not None:
        trace = document["trace"]
        console.print(
            f"trace of {trace['system']}: {trace['failures']} failures in {trace['span_s'] / 86400:.0f} days "
            f"(rule: {trace['rule']}), {_skipped(trace['bad_rows'])}"
        )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    sweep = "loads" in document
    for heading in (
        *(("load",) if sweep else ()),
        "seed",
        "sent",
        "received",
        "latency us",
        "in the network us",
        "throughput",
        "deadlock at s",
        "NAC moves",
    ):
        table.add_column(heading, justify="right")
    for row in rows:
        at = row["deadlocked_at_s"]
        table.add_row(
            *((f"{row['load']:.3g}",) if sweep else ()),
            str(row["seed"]),
            str(row["sent"]),
            str(row["received"]),
            "-" if row["mean_latency_s"] is None else f"{1e6 * row['mean_latency_s']:.3f}",
            "-" if row["network_latency_s"] is None else f"{1e6 * row['network_latency_s']:.3f}",
            f"{row['throughput']:.3f}",
            "-" if at is None else f"{at:.6f}",
            str(row["nac"].get("moved", 0) + row["nac"].get("recovery_moved", 0)) if row["nac"] else "-",
        )
    console.print(table)
    if document["mean_latency_s"] is not None:
        half = document["mean_latency_interval_s"]
        spread = "" if half is None else f" +- {1e6 * half:.3f}"
        console.print(f"mean latency {1e6 * document['mean_latency_s']:.3f}{spread} us, source queue included")
    show_checks(verdict)
