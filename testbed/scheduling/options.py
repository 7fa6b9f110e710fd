"""How a schedule is sought, for the command and the library."""

from __future__ import annotations

from testbed.model.options import kinds
from testbed.model.options.option import Only, options, routed, running, sought
from testbed.scheduling.methods import SCHEDULERS

_SEARCH = Only(when=lambda a: a.check is None, needs="a search (--verify makes none)")


@options
class SearchOptions:
    """The method, what bounds its search, and the seed of everything random."""

    method: str = routed(
        default="liquid",
        flag="--scheduling",
        choices=SCHEDULERS.names,
        metavar="METHOD",
        help=", ".join(SCHEDULERS.names()),
        only=(_SEARCH,),
    )
    time_limit_s: float = sought(default="60", only=(_SEARCH,))
    seed: int = running(default=1, kind=kinds.seed, help="random seed")
