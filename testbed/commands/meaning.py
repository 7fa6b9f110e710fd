"""Which options have a meaning only next to others: an option that would be dropped in silence is refused instead.

Options say it themselves where they are declared (``Only``).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from typing import Any

from testbed.errors import CapabilityError, InputError

Args = argparse.Namespace


def given_options(args: Args) -> dict[str, str]:
    """Value's name -> the option as it was written, for what stood on the command line (see ``OneLineParser``)."""
    found: dict[str, str] = getattr(args, "given", {})
    return found


def refuse_meaningless(args: Args) -> None:
    """Raise InputError for the first option given that has no meaning next to the others."""
    for written, only in getattr(args, "ruled", ()):
        if not only.when(args):
            raise InputError(f"{written}: it is for {only.needs}; leave one of the two out")


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
