"""The workload ``tunnel``: unmodified programs run through a coded tunnel and over its rivals.

A tunnel puts IP packets into coded packets, which it splits over several paths in both directions.
"""

from collections.abc import Callable, Iterator
from functools import partial

from testbed.faults.fault import fault_lines
from testbed.live.events import RunView
from testbed.model.options.planner import planner
from testbed.model.workload import Workload, lazily
from testbed.tunnel.options import TunnelOptions
from testbed.tunnel.trial import TrialPlan, build_trial
from topologies import Json

DESCRIPTION = (
    "Carry the packets of programs (ping, voice, video, iperf3) between two nodes through a "
    "tunnel while links fail. The tunnel codes the packets and splits them over capillary "
    "routes. For comparison, the programs also run over a single shortest path, over the split "
    "without a code, and with a code for the failure of any one cable. Another program may "
    "follow --."
)


def _view(plan: TrialPlan) -> tuple[str, Callable[[], RunView]]:
    """Return the subtitle of the live page, and a function that draws its network."""
    from testbed.live.run_views import split_view

    there = plan.tunnel.there
    title = f"{plan.network.name}: tunnel between {plan.source} and {plan.sink}"
    subtitle = f"{there.method}, {', '.join(plan.rivals)}"
    return subtitle, partial(split_view, title, there.forward, plan.faults)


def _shown(document: Json) -> Iterator[str]:
    """Yield the lines that the command prints for a run's document."""
    between = " and ".join(document["between"])
    route = f"{document['method']}, MTU {document['mtu']}, {document['fabric']}"
    yield f"tunnel between {between}, {route}"
    yield from fault_lines(document["faults"])
    for mode in document["modes"]:
        yield f"{mode['mode']:9}{', '.join(_results_of_mode(mode))}"
    if document.get("summary"):
        yield document["summary"]
    for code in document["command_exit_codes"]:
        yield f"the program ended with exit code {code}"


def _results_of_mode(mode: Json) -> Iterator[str]:
    """Yield the parts of the line of one rival."""
    row = mode["workloads"]
    if mode["wire_ratio"] is not None:
        predicted = mode["originals_lost_predicted"]
        lost = f"{mode['originals_lost_fraction']:.1%} by the network (predicted {predicted:.1%})"
        packets = f"{mode['lost']} of {mode['packets']} packets lost"
        yield f"{packets}, {lost}, {mode['wire_ratio']:.2f} bytes a byte"
    if "voip" in row:
        yield f"voice {row['voip']['mos']:.2f}"
    for name, unit in (("ping", "echoes"), ("udp", "datagrams")):
        if "lost" in row.get(name, {}):
            yield f"{row[name]['lost']} of {row[name]['sent']} {unit} lost"
    if "video" in row:
        video = row["video"]
        quality = ""
        if video.get("psnr_db"):
            quality = f", PSNR {video['psnr_db']:.1f} dB"
        yield f"{video['identical']} of {video['frames']} frames identical{quality}"
    tcp = row.get("tcp", {})
    for name, result in (("TCP", tcp), ("BBR", tcp.get("bbr", {}))):
        if "goodput_bps" in result:
            yield f"{name} {result['goodput_bps'] / 1e6:.2f} Mbit/s"
        elif "error" in result:
            yield f"{name}: {result['error']}"
    if "error" in row.get("udp", {}):
        yield f"udp: {row['udp']['error']}"


tunnel_plan = planner(
    "tunnel_plan",
    "Make the plan of programs through a coded tunnel and its rivals.",
    TunnelOptions,
    build_trial,
    TrialPlan,
)
TUNNEL = Workload(
    name="tunnel",
    title="Programs through a coded tunnel",
    description=DESCRIPTION,
    command="testbed tunnel swiss-t1 --between s1 s6 --workload ping,voip",
    plan=TrialPlan,
    options=TunnelOptions,
    build=build_trial,
    emulate=lazily("testbed.tunnel.emulated.fabric:emulate_trial"),
    judge=lazily("testbed.tunnel.judgement:judge_trial"),
    view=_view,
    figures=lazily("testbed.tunnel.figures:trial_figures"),
    shown=_shown,
    example=lambda: tunnel_plan("ring:4", ("s0", "s2"), workload="voip", duration_s=4.0),
)
