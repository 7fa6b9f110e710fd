"""``testbed stream ... --routing ft-drb|recomputed``: a plain stream whose routing, not a code, answers failures."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from testbed.commands.arguments import add_options, read_options
from testbed.errors import CapabilityError
from testbed.metapath.options import MetapathOptions, MetapathPlanOptions
from testbed.model.options.option import Only, nested, options

if TYPE_CHECKING:
    from testbed.metapath.plan import MetapathPlan


@options
class _FtDrb:
    ft_drb: MetapathOptions = nested(
        default_factory=MetapathOptions,
        group="--routing ft-drb",
        only=(Only(when=lambda a: a.routing == "ft-drb", needs="--routing ft-drb"),),
    )


def add_routing_options(parser: argparse.ArgumentParser) -> None:
    """--routing, and FT-DRB's parameters."""
    parser.add_argument(
        "--routing",
        metavar="NAME",
        help="ft-drb or recomputed (capillary, recomputed by the controller): a stream without a code (emulation); any "
        "other name is that of a --method",
    )
    add_options(parser, _FtDrb)


def run_reactive(args: argparse.Namespace) -> int:
    """Exit code: the verdict's. The caller has entered the sandbox."""
    from testbed.commands.workload_command import carried_out
    from testbed.metapath.workload import METAPATH
    from testbed.model.workload import How

    how = How(fabric="emulation", results=args.results)
    return carried_out(args, "stream", METAPATH, how, [_plan(args)])


def check_reactive(args: argparse.Namespace, fabric: str) -> None:
    """Before the sandbox is entered. Raises InputError or CapabilityError for what this routing cannot do."""
    if fabric != "emulation":
        raise CapabilityError(
            f"--routing {args.routing} runs on switches only; the simulator's FT-DRB is testbed simulate ... --routing ft-drb"
        )
    _plan(args)


def _plan(args: argparse.Namespace) -> MetapathPlan:
    """Raises InputError or TopologyError where an option cannot be used."""
    from testbed.metapath.planning import build_metapath

    requested = MetapathPlanOptions(
        network=args.network,
        source=args.source,
        sink=args.sink,
        routing=args.routing,
        rate_pps=args.rate_pps,
        packet_bytes=args.symbol_bytes,
        faults=args.faults,
        fault_kind=args.fault_kind,
        max_faults=args.links,
        duration_s=args.duration,
        options=read_options(args, _FtDrb).ft_drb,
        seed=args.seed,
    )
    return build_metapath(requested)
