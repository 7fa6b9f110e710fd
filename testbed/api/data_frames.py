"""Results as tables of pandas, which the extra ``notebooks`` installs."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from testbed.api.run_result import RunResult, as_frame
from testbed.errors import UsageError
from topologies.network import link_fields
from topologies.text.json_types import Json

if TYPE_CHECKING:
    import pandas

    from testbed.model.routes import SplitRoute


def data_frame(result: object) -> "pandas.DataFrame":
    """The table of a result: a route (a row a loaded link), a schedule (a row a transfer), a run (a row a fault, an
    operation, a round), a session's counters (a row a link), a network (a row a link).

    Raises CapabilityError where pandas is not installed, UsageError for what has no table.

    >>> import testbed
    >>> data_frame(testbed.route("ring:4", "s0", "s2")).load_float.tolist()  # doctest: +SKIP
    [0.5, 0.5, 0.5, 0.5]
    """
    return as_frame(rows_of(result))


def rows_of(result: object) -> list[Json]:
    """The table's rows, without pandas.

    >>> import testbed
    >>> sorted(row["frame"] for row in rows_of(testbed.schedule("crossbar:2")))
    [0, 0, 1, 1]
    """
    from testbed.model.routes import SplitRoute
    from testbed.model.run_records import network_document
    from testbed.model.schedule import Schedule
    from topologies import Network

    if isinstance(result, RunResult):
        return list(result.rows)
    if isinstance(result, SplitRoute):
        return [_load_row(result, i) for i in result.loaded]
    if isinstance(result, Schedule):
        return [{"transfer": i, "frame": frame} for i, frame in enumerate(result.frame_of.tolist())]
    if isinstance(result, Network):
        return list(network_document(result)["links"])
    if isinstance(result, Mapping) and all(isinstance(key, tuple) and len(key) == 3 for key in result):
        return [{**link_fields(link), **vars(count)} for link, count in result.items()]
    raise UsageError(f"data_frame: a {type(result).__name__} has no table; give a route, a schedule, a run or counters")


def _load_row(route: "SplitRoute", index: int) -> Json:
    link, load = route.network.links[index], route.loads[index]
    layer = route.link_layers[index] if route.link_layers else 0
    return {**link_fields(link.id), "load": load, "load_float": float(load), "layer": layer}
