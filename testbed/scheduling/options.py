"""How a schedule is sought, for the command and the library."""

from __future__ import annotations

from testbed.model.options import kinds
from testbed.model.options.option import ROUTED, RUN, Only, option, options
from testbed.scheduling.methods import SCHEDULERS

_SEARCH = Only(when=lambda a: a.check is None, needs="a search (--verify makes none)")


@options
class SearchOptions:
    """The method, what bounds its search, and the seed of everything random."""

    method: str = option(
        default="liquid",
        flag="--scheduling",
        choices=SCHEDULERS.names,
        group=ROUTED,
        metavar="METHOD",
        help=", ".join(SCHEDULERS.names()),
        only=(_SEARCH,),
    )
    time_limit_s: float = option(
        default="60",
        flag="--solver-time-limit",
        kind=kinds.search_limit,
        group=ROUTED,
        metavar="TIME",
        only=(_SEARCH,),
    )
    seed: int = option(default=1, kind=kinds.seed, group=RUN, help="random seed")
