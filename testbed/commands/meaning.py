"""Which options have a meaning only next to others: an option that would be dropped in silence is refused instead.

Options say it themselves where they are declared (``Only``); ``RULES`` has what those of ``stream`` and ``mobility`` depend on, and a
test holds both parsers to it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from testbed.errors import CapabilityError, InputError
from testbed.model.options.option import meaningless

Args = argparse.Namespace


@dataclass(frozen=True, kw_only=True)
class Rule:
    """``options`` (as argparse names their values) have a meaning where ``when`` holds; ``needs`` says so in words."""

    options: tuple[str, ...]
    when: Callable[[Args], bool]
    needs: str


REACTIVE = ("ft-drb", "recomputed")


def _each_link(args: Args) -> bool:
    return str(args.faults) == "each-link"


def _coded(args: Args) -> bool:
    return args.routing not in REACTIVE


def _probing(args: Args) -> bool:
    return bool(args.probe_block_size)


_FT_DRB = (
    "notify", "link_up", "paths", "first_paths", "notifications", "probe_every", "silence_ms", "thl", "tol", "metapaths_always",
)  # fmt: skip
_CODING = (
    "profile", "m", "tolerance", "der", "labels", "playback", "most_overhead", "hold", "layers", "also", "background_mbps", "queues",
    "pcap", "mtu", "probe_block_size", "one_way", "precision", "fault_loss",
)  # fmt: skip


def _spread(args: Args) -> bool:
    return args.machines is not None


_FAULTS = ("faults", "fault_kind", "links", "one_way", "precision")
RULES: dict[str, tuple[Rule, ...]] = {
    "stream": (
        Rule(
            options=("method",),
            when=lambda a: a.routing is None or a.routing == a.method,
            needs="a stream without --routing, which names the method too",
        ),
        Rule(options=_CODING, when=_coded, needs="a coded stream (--routing ft-drb and recomputed send none)"),
        Rule(options=_FT_DRB, when=lambda a: a.routing == "ft-drb", needs="--routing ft-drb"),
        Rule(options=("machines",), when=lambda a: _coded(a) and not _probing(a), needs="a coded stream without --probe-block-size"),
        Rule(options=("pcap", "background_mbps"), when=lambda a: not _spread(a), needs="a stream on one machine, without --machines"),
        Rule(options=("blocks", "probe_link"), when=_probing, needs="--probe-block-size"),
        Rule(options=("repeats",), when=lambda a: not (_probing(a) or a.also), needs="one stream, without --also and --probe-block-size"),
        Rule(
            options=(*_FAULTS, "duration", "also", "pcap", "mtu", "queues", "background_mbps"),
            when=lambda a: not _probing(a),
            needs="a stream without --probe-block-size, which breaks its own link",
        ),
        Rule(
            options=("fault_kind", "one_way", "precision", "links"), when=_each_link, needs="--faults each-link (the default)"
        ),
        Rule(options=("fault_loss",), when=lambda a: a.fault_kind == "loss" and _each_link(a), needs="--fault-kind loss"),
        Rule(
            options=("layers",),
            when=lambda a: (a.routing or a.method).partition(":")[0] == "capillary",
            needs="--method capillary",
        ),
    ),
    "mobility": (
        Rule(options=("frames",), when=lambda a: len(a.network) == 1, needs="one mobile network, not one file a frame"),
        Rule(options=("layers",), when=lambda a: a.method.partition(":")[0] == "capillary", needs="--method capillary"),
    ),
}  # fmt: skip


def given_options(args: Args) -> dict[str, str]:
    """Value's name -> the option as it was written, for what stood on the command line (see ``OneLineParser``)."""
    found: dict[str, str] = getattr(args, "given", {})
    return found


def refuse_meaningless(command: str, args: Args) -> None:
    """Raise InputError for the first option given that has no meaning next to the others."""
    given = given_options(args)
    for rule in RULES.get(command, ()):
        named = next((given[name] for name in rule.options if name in given), None)
        if named is not None and not rule.when(args):
            raise InputError(f"{named}: it is for {rule.needs}; leave one of the two out")
    ruled = [
        (given[name], only.needs) for name, only in getattr(args, "ruled", ()) if name in given and not only.when(args)
    ]
    for written, needs in (
        *ruled,
        *(one for kind in getattr(args, "declared", ()) for one in meaningless(kind, given, args)),
    ):
        raise InputError(f"{written}: it is for {needs}; leave one of the two out")


def require_switches(args: Args, fabric: str, options: Iterable[str]) -> None:
    """Refuse options that only switches can carry out, where the run is on the simulated fabric.

    Raises InputError where the simulator was requested, CapabilityError where this machine has nothing else.
    """
    given: Any = given_options(args)
    named = next((given[name] for name in options if name in given), None)
    if fabric != "emulation" and named is not None:
        kind = InputError if args.fabric == "simulator" else CapabilityError
        raise kind(
            f"{named} needs the emulated fabric: the simulated one has no switches, queues or cables; leave it out"
        )
