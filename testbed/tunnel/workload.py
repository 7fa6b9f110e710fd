"""Programs that nobody here wrote, through a coded tunnel and over its rivals, while links fail."""

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
    "Carry the packets of programs (echoes, voice, iperf3, a moving picture) between two nodes through a tunnel that "
    "codes them and splits them over capillary routes, while links fail; and the same over its rivals: one shortest "
    "path, the split without code, and a code for any one cable. A program of your own follows --."
)


def _view(plan: TrialPlan) -> tuple[str, Callable[[], RunView]]:
    from testbed.live.run_views import split_view

    there, title = (
        plan.tunnel.there,
        f"{plan.network.name}: tunnel between {plan.source} and {plan.sink}",
    )
    return f"{there.method}, {', '.join(plan.rivals)}", partial(
        split_view, title, there.forward, plan.faults
    )


def _shown(document: Json) -> Iterator[str]:
    between = " and ".join(document["between"])
    yield f"tunnel between {between}, {document['method']}, MTU {document['mtu']}, {document['fabric']}"
    yield from fault_lines(document["faults"])
    for mode in document["modes"]:
        yield f"{mode['mode']:9}{', '.join(_words(mode))}"
    if document.get("summary"):
        yield document["summary"]
    for code in document["command_exit_codes"]:
        yield f"the program ended with exit code {code}"


def _words(mode: Json) -> Iterator[str]:
    row = mode["workloads"]
    if mode["wire_ratio"] is not None:
        predicted = mode["originals_lost_predicted"]
        lost = f"{mode['originals_lost_fraction']:.1%} by the network (predicted {predicted:.1%})"
        yield f"{mode['lost']} of {mode['packets']} packets lost, {lost}, {mode['wire_ratio']:.2f} bytes a byte"
    if "voip" in row:
        yield f"voice {row['voip']['mos']:.2f}"
    for name, words in (("ping", "echoes"), ("udp", "datagrams")):
        if "lost" in row.get(name, {}):
            yield f"{row[name]['lost']} of {row[name]['sent']} {words} lost"
    if "video" in row:
        quality = f", PSNR {row['video']['psnr_db']:.1f} dB" if row["video"].get("psnr_db") else ""
        yield f"{row['video']['identical']} of {row['video']['frames']} frames identical{quality}"
    for name, found in (("TCP", row.get("tcp", {})), ("BBR", row.get("tcp", {}).get("bbr", {}))):
        if "goodput_bps" in found:
            yield f"{name} {found['goodput_bps'] / 1e6:.2f} Mbit/s"
        elif "error" in found:
            yield f"{name}: {found['error']}"
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
