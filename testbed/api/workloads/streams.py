"""The command ``stream``.

Its options choose between coded streams, a probe of a block size, and streams without a code whose
routing reacts to failures.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace

from testbed.errors import CapabilityError
from testbed.metapath.options import MetapathOptions, MetapathPlanOptions
from testbed.metapath.plan import MetapathPlan, MetapathRun
from testbed.metapath.workload import METAPATH
from testbed.model.naming.names import known_network, read_pair
from testbed.model.options import kinds
from testbed.model.options.option import Only, coded, ends, nested, options, routed
from testbed.model.progress import ReportProgress
from testbed.model.workload import How, Work
from testbed.stream.options import (
    CODED,
    NOT_PROBING,
    PROBING,
    UNCODED,
    StreamOptions,
    StreamRunOptions,
)
from testbed.stream.plan import ProbePlan, StreamsPlan
from testbed.stream.workload import PROBE, STREAMS
from topologies.text.json_types import JsonObject

DESCRIPTION = (
    "Stream coded packets over a multipath route while links fail. For every fault, the "
    "measured loss, block size, delay and redundancy are compared with the prediction."
)
_FT_DRB = Only(when=lambda args: args.routing == "ft-drb", needs="--routing ft-drb")


@options
class StreamCommandOptions(StreamOptions):
    """The options of the command ``stream``, which choose the kind of the run."""

    also: Sequence[str] = ends(
        flag="--flow",
        default=(),
        many=True,
        metavar="A:B",
        only=(CODED, NOT_PROBING),
        help="another stream from A to B at the same time (repeatable)",
    )
    routing: str | None = routed(
        default=None,
        metavar="METHOD",
        help="routing method, see testbed route (default: capillary). With ft-drb, and with "
        "recomputed (capillary routes recomputed by the controller), the stream has no "
        "code (emulation only)",
    )
    probe_block_size: bool = coded(
        default=False,
        only=(CODED,),
        help="keep N fixed, and count decoding failures with N and with N - 1",
    )
    blocks: int = coded(
        flag="--probe-blocks",
        default=10_000,
        kind=kinds.blocks,
        only=(PROBING,),
        help="number of blocks for each N of --probe-block-size",
    )
    probe_link: str | None = coded(
        default=None,
        metavar="LINK",
        only=(PROBING,),
        help="link a->b that is down during --probe-block-size (default: the link with the "
        "highest load)",
    )
    ft_drb: MetapathOptions = nested(
        default_factory=MetapathOptions, group="--routing ft-drb", only=(_FT_DRB,)
    )


def _build(requested: StreamCommandOptions) -> StreamsPlan | ProbePlan | MetapathPlan:
    """Build the plan that the options choose."""
    if requested.routing in UNCODED:
        return _uncoded_plan(requested)
    requested = replace(requested, method=requested.routing or requested.method)
    if requested.probe_block_size:
        from testbed.stream.probe import build_probe

        return build_probe(requested, blocks=requested.blocks, link=requested.probe_link)
    from testbed.stream.planning import build_together

    network = known_network(requested.network)
    pairs = [(requested.source, requested.sink)]
    pairs += [read_pair(flow, network, "--flow") for flow in requested.also]
    plans = build_together(
        [replace(requested, network=network, source=source, sink=sink) for source, sink in pairs]
    )
    titles = tuple(f"{requested.network} {source} to {sink}" for source, sink in pairs)
    return StreamsPlan(plans=plans, titles=titles)


def _uncoded_plan(requested: StreamCommandOptions) -> MetapathPlan:
    from testbed.metapath.planning import build_metapath

    names = [option.name for option in fields(MetapathPlanOptions)]
    values: JsonObject = {
        name: getattr(requested, name) for name in names if hasattr(requested, name)
    }
    # These options have other names in the two classes.
    renamed: JsonObject = {
        "packet_bytes": requested.symbol_bytes,
        "max_faults": requested.links,
        "options": requested.ft_drb,
    }
    return build_metapath(MetapathPlanOptions(**values, **renamed))


def _carry_uncoded(
    plan: MetapathPlan, how: How, report_progress: ReportProgress | None
) -> MetapathRun:
    if how.fabric != "emulation" or METAPATH.emulate is None:
        raise CapabilityError(
            f"--routing {plan.routing} runs on switches only; simulated: "
            "testbed simulate --routing ft-drb"
        )
    return METAPATH.emulate(plan, report_progress)


STREAM_COMMAND: Work = replace(
    STREAMS,
    description=DESCRIPTION,
    command="testbed stream swiss-t1 --from s1 --to s6 --faults 's1->s2@2-4, s3->s6@6-8'",
    options=StreamCommandOptions,
    run_options=StreamRunOptions,
    build=_build,
    others=(PROBE, replace(METAPATH, carry=_carry_uncoded)),
)
