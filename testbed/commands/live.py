"""``--live``: a page on loopback that shows a run while it goes on."""

import argparse
import os
import sys

OUTCOMES = {
    0: "passed",
    1: "failed",
    2: "refused",
    3: "a required capability is missing",
    4: "invalid, the machine could not keep up",
    5: "cannot tell",
    70: "ended by an error that nobody foresaw",
}


def start_live(args: argparse.Namespace) -> None:
    """Serve the page, and print its address, where requested. To be called before the sandbox is entered, when bad
    input has been refused.

    Raises CapabilityError where the extra ``live`` is not installed.
    """
    if not args.live:
        return
    from testbed.live.adapters.feed import VARIABLE, start_server

    if VARIABLE not in os.environ:
        print(f"live: {start_server()}", file=sys.stderr, flush=True)


def end_live(code: int) -> None:
    """The command is over with this exit code."""
    from testbed.live.adapters.feed import end_feed

    end_feed(OUTCOMES.get(code, "interrupted" if code == 130 else f"exit code {code}"))
