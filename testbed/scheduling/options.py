"""Options of the search for a schedule, for the command and the library."""

from __future__ import annotations

from testbed.model.options import kinds
from testbed.model.options.option import Only, options, routed, running, sought
from testbed.scheduling.methods import SCHEDULERS

# Options that have no effect if a given schedule is only verified.
_SEARCH = Only(when=lambda a: a.check is None, needs="a search (--verify makes none)")


@options
class SearchOptions:
    """The options of a search.

    Attributes:
        method: Name of the scheduling method.
        time_limit_s: Time limit of the search in seconds.
        seed: Seed of all random choices.
    """

    method: str = routed(
        default="liquid",
        flag="--scheduling",
        choices=SCHEDULERS.names,
        metavar="METHOD",
        help=f"scheduling method: {', '.join(SCHEDULERS.names())}",
        only=(_SEARCH,),
    )
    time_limit_s: float = sought(
        default="60", help="time limit of the search for a schedule, in seconds", only=(_SEARCH,)
    )
    seed: int = running(default=1, kind=kinds.seed, help="seed of all random choices")
