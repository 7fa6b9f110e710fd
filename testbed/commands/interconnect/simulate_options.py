"""Options of ``testbed simulate`` that shape FT-DRB, NAC and failures: what Zarza 2011 leaves open, one option each.

Only options that were given are passed on, so the defaults stay where they are documented: in FtDrbOptions and NacOptions.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from testbed.errors import InputError
from testbed.faults.grammar import no_faults
from testbed.model.options import kinds

if TYPE_CHECKING:
    from testbed.faults.failure_traces import FailureTrace
    from testbed.interconnect.parameters import FtDrbOptions, NacOptions

_FT_DRB = (
    "paths", "first_paths", "notifications", "marking", "marking_s", "probing", "probe_every", "probe_s", "probes",
    "notifier", "link_up", "reuse_notifications", "notify_queued", "threshold", "tolerance", "averaging", "hysteresis",
    "ack_bytes", "ack_buffers", "header_bytes", "always", "hop_cap_diameters",
)  # fmt: skip
_NAC = (
    "nac_control_s", "nac_retry_s", "nac_repeat_when_full", "nac_own_request", "nac_reserve", "nac_stop_local",
    "nac_recovery_run", "nac_slack", "nac_strict_slot", "nac_stop_output", "nac_identify_anew", "nac_ask_anew",
)  # fmt: skip
_TRACE = ("trace_system", "trace_rule", "trace_permanent", "skip_bad_rows")
_NAMES = {
    "marking_s": "marking-time",
    "probe_s": "probe-time",
    "nac_control_s": "nac-control",
    "nac_retry_s": "nac-retry",
}


def add_ft_drb_options(parser: argparse.ArgumentParser) -> None:
    """Design alternatives of 3.6 (Table 3.2) and the numbers that the document does not give."""
    add = parser.add_argument_group("FT-DRB (with --routing ft-drb)").add_argument
    add("--paths", type=kinds.simulated_paths, metavar="N", help="most alternative paths of a pair (default 4)")
    add("--first-paths", type=kinds.simulated_paths, metavar="N", help="paths that a metapath starts with (default 1)")
    add(
        "--marking", choices=("ack", "clock", "hybrid"),
        help="a link is permanent after notifications in a row (default), after a time without a latency ACK, or either",
    )  # fmt: skip
    add("--notifications", type=kinds.occurrences, metavar="N", help="in a row, that mark a link (default 5)")
    add("--marking-time", dest="marking_s", type=kinds.short, metavar="S", help="of marking by clock (default 0.05)")
    add(
        "--probing", choices=("request", "clock", "hybrid"),
        help="marked paths are tried by one in so many messages (default), every so long, or either",
    )  # fmt: skip
    add("--probe-every", type=kinds.simulated_interval, metavar="N", help="one in N messages (default 100)")
    add("--probe-time", dest="probe_s", type=kinds.short, metavar="S", help="of probing by clock (default 0.05)")
    add(
        "--probes", choices=("message", "synthetic"),
        help="the message itself tries the marked path (default), or a small packet beside it",
    )  # fmt: skip
    add("--notifier", choices=("router", "destination"), help="who tells the source of a failure (default router)")
    add(
        "--link-up", choices=("probe", "router"), help="who finds that a link is mended: probes (default) or its router"
    )
    add("--reuse-notifications", action="store_true", default=None, help="hosts on a notification's way learn from it")
    add(
        "--notify-queued",
        action="store_true",
        default=None,
        help="notify the sources of all that waits for a failed link",
    )
    add("--ack-bytes", type=kinds.size_bytes, metavar="B", help="of every ACK (default 64)")
    add(
        "--ack-buffers",
        choices=("own", "shared"),
        help="ACKs have buffers of their own (default), or wait with messages",
    )
    add(
        "--header-bytes",
        type=kinds.size_bytes,
        metavar="B",
        help="that FT-DRB's header adds to every message (default 0)",
    )
    add(
        "--hop-cap",
        dest="hop_cap_diameters",
        type=kinds.diameters,
        metavar="N",
        help="diameters that make a livelock (default 16)",
    )
    _add_balancing_options(add)


def _add_balancing_options(add: Callable[..., argparse.Action]) -> None:
    """Algorithm 3.3: when a metapath takes one path more or less."""
    add(
        "--threshold",
        type=kinds.times_zero_load,
        metavar="X",
        help="Thl over the zero-load latency of the pair (default 4)",
    )
    add("--tolerance", type=kinds.share, metavar="X", help="Tol over Thl (default 0.25)")
    add(
        "--averaging",
        type=kinds.simulated_interval,
        metavar="N",
        help="a latency moves its path's mean by 1/N (default 8)",
    )
    yes_or_no = argparse.BooleanOptionalAction
    add(
        "--hysteresis", action=yes_or_no, default=None,
        help="give a path up only where those left are below Thl - Tol without it (default yes; no: Algorithm 3.3 to the letter)",
    )  # fmt: skip
    add(
        "--always-metapaths",
        dest="always",
        action=yes_or_no,
        default=None,
        help="for pairs without failures too (default yes)",
    )


def add_nac_options(parser: argparse.ArgumentParser) -> None:
    """Decisions where the text of 4.2 is open, and the variant of 4.3."""
    add = parser.add_argument_group("NAC (with --deadlock nac)").add_argument
    add(
        "--nac-control",
        dest="nac_control_s",
        type=kinds.short,
        metavar="S",
        help="t_f, a control packet's hop (default 3.975e-7)",
    )
    add(
        "--nac-retry", dest="nac_retry_s", type=kinds.short, metavar="S",
        help="until a blocked router identifies itself again (default (n + 1) t_f on a ring of n, 4 k t_f on a k-torus)",
    )  # fmt: skip
    add(
        "--nac-slack",
        type=kinds.packets_of_slack,
        metavar="N",
        help="act N packets before a buffer is full, the variant of 4.3 (default 0)",
    )
    for name, says in (
        ("repeat-when-full", "repeat identification packets while the avoidance buffer is full"),
        ("own-request", "the avoidance buffer asks the crossbar for itself"),
        ("reserve", "a freed slot is kept for the cycle"),
        ("stop-local", "local injection stops while a router is blocked or recovering"),
        ("recovery-run", "the recovery signal goes round the cycle"),
    ):
        add(f"--nac-{name}", action=argparse.BooleanOptionalAction, default=None, help=f"{says} (default yes)")
    for name, says in (
        ("strict-slot", "the avoidance buffer is in use until the tail of its packet has left"),
        ("stop-output", "an output that a blocked input asks for is closed from detection on (stop_st, 4.2.1)"),
        ("identify-anew", "each router that the recovery signal reaches identifies the cycle by itself (4.2.3)"),
        (
            "ask-anew",
            "when a cable fails or works again, heads of inputs leave out their escape paths (not in the document)",
        ),
    ):
        add(f"--nac-{name}", action=argparse.BooleanOptionalAction, default=None, help=f"{says} (default no)")
    add(
        "--nac-timeline", type=Path, metavar="FILE",
        help="write every identification, move and recovery as CSV (the first 100000 of each run)",
    )  # fmt: skip


def add_fault_options(parser: argparse.ArgumentParser) -> None:
    """Failures in words or from an availability trace."""
    add = parser.add_argument_group("failures").add_argument
    add(
        "--faults", metavar="none|LIST",
        help="commas between: s0_0-s0_1@0.1-0.2 (down from, up at, seconds; for ever without), random:N, transient:N, intermittent:N, "
        "line:N, square:N, L:N, U:N (legs of N links), or trace:FILE (an LANL, FTA or PNNL table, plain or .gz)",
    )  # fmt: skip
    add("--trace-system", metavar="NAME", help="whose failures of the table are meant (LANL, FTA)")
    add(
        "--trace-rule",
        help="which rows of an LANL table count: interconnect-hardware (default), network-column, either",
    )
    add("--trace-permanent", action="store_true", default=None, help="no failure of the trace is mended")
    add(
        "--skip-bad-rows",
        action="store_true",
        default=None,
        help="skip rows of the trace that cannot be read; they are counted",
    )


def ft_drb_options(args: argparse.Namespace) -> FtDrbOptions:
    """InputError for an option of FT-DRB without FT-DRB, and for values that it refuses."""
    from testbed.interconnect.parameters import FtDrbOptions

    given = _given(args, _FT_DRB)
    if given and args.routing != "ft-drb":
        raise InputError(f"{_option(next(iter(given)))}: an option of FT-DRB; give --routing ft-drb too")
    return FtDrbOptions(**given)


def nac_options(args: argparse.Namespace) -> NacOptions:
    """InputError for an option of NAC without NAC, and for values that it refuses."""
    from testbed.interconnect.parameters import NacOptions

    given = _given(args, _NAC)
    if (given or args.nac_timeline is not None) and args.deadlock != "nac":
        raise InputError(f"{_option(next(iter(given), 'nac_timeline'))}: an option of NAC; give --deadlock nac too")
    return NacOptions(**{name.removeprefix("nac_"): value for name, value in given.items()})


def split_faults(args: argparse.Namespace) -> tuple[str | None, FailureTrace | None]:
    """The faults in words, and the trace read from its file. InputError for a second trace, a file that cannot be read, a
    broken row (by its number), and options of traces without one.
    """
    asked = "" if args.faults is None or no_faults(args.faults) else args.faults
    words = [word for word in asked.split(",") if word.strip()]
    files = [word.strip().removeprefix("trace:") for word in words if word.strip().startswith("trace:")]
    rest = ",".join(word for word in words if not word.strip().startswith("trace:")) or None
    if len(files) > 1:
        raise InputError(f"--faults {args.faults!r}: {len(files)} traces; give one")
    if not files:
        given = _given(args, _TRACE)
        if given:
            raise InputError(f"{_option(next(iter(given)))}: an option of traces; give --faults trace:FILE too")
        return rest, None
    from testbed.results.trace_files import read_trace

    return rest, read_trace(
        Path(files[0]), system=args.trace_system, rule=args.trace_rule, skip_bad_rows=bool(args.skip_bad_rows)
    )


def trace_summary(trace: FailureTrace | None) -> dict[str, Any] | None:
    """What was read of the trace, for the report."""
    if trace is None:
        return None
    return {
        "system": trace.system,
        "rule": trace.rule,
        "failures": len(trace.failures),
        "span_s": trace.span_s,
        "bad_rows": list(trace.bad_rows),
    }


def _given(args: argparse.Namespace, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(args, name) for name in names if getattr(args, name) is not None}


def _option(name: str) -> str:
    return "--" + _NAMES.get(
        name, {"always": "always-metapaths", "hop_cap_diameters": "hop-cap"}.get(name, name)
    ).replace("_", "-")
