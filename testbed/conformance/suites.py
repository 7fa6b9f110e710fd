"""The suite of each group of plug-ins, and the registries of all groups.

This module contains the suites of codes, file formats, families of networks and workloads.
"""

import contextlib
import json
import random
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fec.protocol.large_blocks import BlockCode
from testbed.conformance.problem_checks import finding, must_raise
from testbed.conformance.routings import (
    demand_routing_checks,
    routing_checks,
    static_routing_checks,
)
from testbed.conformance.schedulers import scheduler_checks
from testbed.errors import InputError
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import read_messages, simulate
from testbed.model.file_formats import (
    SCHEDULE_FORMATS,
    SCHEDULE_VERIFIERS,
    TRAFFIC_FORMATS,
    ScheduleFormat,
    ScheduleVerifier,
    TrafficFormat,
)
from testbed.model.traffic import Traffic
from testbed.model.verdict import Check, Verdict
from testbed.model.wiring import wire
from testbed.model.workload import How, Judgement, Work
from testbed.routing.demands.methods import DEMAND_ROUTINGS
from testbed.routing.methods import ROUTINGS
from testbed.scheduling.methods import SCHEDULERS, schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all
from topologies import Json, Network, load_network
from topologies.catalog import FAMILIES, CatalogueEntry
from topologies.files.node_link import write_document
from topologies.registry import Registry
from topologies.routing_tables import STATIC_ROUTINGS


def registries() -> dict[str, Registry[Any]]:
    """Return the registry of each group, in the order in which they are listed."""
    # These modules import others that use the suites.
    from testbed.api.workloads.registry import WORKLOADS
    from testbed.download.codes import CODES

    in_order: list[Registry[Any]] = [
        ROUTINGS,
        DEMAND_ROUTINGS,
        SCHEDULERS,
        CODES,
        STATIC_ROUTINGS,
        FAMILIES,
        WORKLOADS,
        SCHEDULE_FORMATS,
        SCHEDULE_VERIFIERS,
        TRAFFIC_FORMATS,
    ]
    return {registry.group: registry for registry in in_order}


def check(group: str, name: str) -> Verdict:
    """Check a plug-in by the suite of its group. This takes some seconds.

    Args:
        group: The group, such as "testbed.routings".
        name: Name of the plug-in in the group. It may have a parameter (``capillary:3``), or the
            placeholder with which the plug-in is listed (``capillary:K``).

    Raises:
        InputError: The group or the name is unknown, or the plug-in refuses the parameter.

    >>> check("testbed.routings", "single").passed
    True
    """
    registry_of_group = registries()
    if group not in registry_of_group:
        raise InputError(f"group {group!r}; give one of {', '.join(registry_of_group)}")
    registry = registry_of_group[group]
    plugin = registry.find(name)
    if plugin is None:
        raise InputError(f"{group}: there is no {name!r}; there are {', '.join(registry.names())}")
    if ":" in name and group in ("testbed.routings", "testbed.demand_routings"):
        if name in registry.names():
            plugin = _with_usual_parameter(plugin)
        else:
            plugin = plugin(name.partition(":")[2])
    checks = _suite_checks(group.removeprefix("testbed."), name, plugin)
    return Verdict(checks=tuple(checks)).keyed()


def _suite_checks(group: str, name: str, plugin: Any) -> list[Check]:
    """Return the checks of a plug-in.

    Args:
        group: The group without the prefix ``testbed.``.
        name: Name of the plug-in.
        plugin: The plug-in.
    """
    if group in _NAMED_SUITES:
        return _NAMED_SUITES[group](name, plugin)
    return _SUITES[group](plugin)


def group_of(name: str) -> str:
    """Return the group of a plug-in.

    Args:
        name: Name of the plug-in, which may have a parameter (``capillary:3``).

    Raises:
        InputError: The name is in no group or in several.
    """
    groups = [group for group, registry in registries().items() if registry.has(name)]
    if len(groups) != 1:
        where = "no group has it"
        if groups:
            where = f"it is in {', '.join(groups)}; say which by --group"
        raise InputError(f"plug-in {name!r}: {where}; testbed plugins lists all")
    return groups[0]


def _with_usual_parameter(make: Callable[[str], Any]) -> Any:
    """Return a routing with the first usual number that it accepts as its parameter.

    Args:
        make: Returns the routing for the text of a parameter.
    """
    for number in ("2", "0.05", "1.2"):
        try:
            return make(number)
        except InputError as error:
            last_error = error
    raise last_error


# Number of source symbols, and bytes of each symbol.
SIZES = ((1, 64), (5, 64), (40, 256), (100, 1024))
# Number of random sets of symbols for each size.
_DRAWS = 8
# Number of symbols that decoding may need beyond the source symbols and the excess that the code
# declares. With fewer, decoding may fail with a small probability.
_SPARE = 3


def code_checks(make: Callable[[], BlockCode]) -> list[Check]:
    """Return the checks of a code: one for each property and size.

    Args:
        make: Creates the code.
    """
    checks = [finding("it says what it is", partial(_undescribed, make))]
    for symbols, size in SIZES:
        where = f"{symbols} symbols of {size} bytes"
        checks += [
            finding(
                f"{where}: the source symbols alone",
                partial(_not_decoded, make, symbols, size, [range(symbols)]),
            ),
            finding(
                f"{where}: random symbols of the first two blocks' worth",
                partial(_random_not_decoded, make, symbols, size),
            ),
            finding(
                f"{where}: too few symbols give nothing", partial(_too_early, make, symbols, size)
            ),
        ]
    return checks


def _undescribed(make: Callable[[], BlockCode]) -> str | None:
    code = make()
    if not isinstance(code.name, str) or not code.max_symbols >= 1 or not code.excess >= 0:
        description = (
            f"name {code.name!r}, max_symbols {code.max_symbols!r}, excess {code.excess!r}"
        )
        return f"{description}; give a text, 1 or more, 0 or more"
    return None


def _block(symbols: int, size: int) -> bytes:
    """Return pseudorandom bytes of a block, which depend only on its length in bytes."""
    return random.Random(symbols * size).randbytes(symbols * size)


def _not_decoded(
    make: Callable[[], BlockCode], symbols: int, size: int, draws: Sequence[Sequence[int]]
) -> str | None:
    """Return why a block cannot be decoded from at least one of these sets of symbols, or None.

    Args:
        make: Creates the code.
        symbols: Number of source symbols.
        size: Bytes of a symbol.
        draws: The sets. Each is a sequence of symbol numbers; source symbols have the first ones.
    """
    code = make()
    block = _block(symbols, size)
    encoder = code.encoder(block, size)
    for numbers in draws:
        decoder = code.decoder(symbols, size)
        count = 0
        for number in numbers:
            symbol = encoder.symbol(number)
            if len(symbol) != size:
                return f"symbol {number} has {len(symbol)} bytes, not {size}"
            count += 1
            decoded = decoder.add(number, symbol)
            if decoded is not None:
                break
        else:
            return f"not decoded from {count} different symbols"
        if decoded != block:
            return f"decoded from {count} symbols, but to other bytes"
    return None


def _random_not_decoded(make: Callable[[], BlockCode], symbols: int, size: int) -> str | None:
    """Return why a block cannot be decoded from random symbols, or None."""
    rng = random.Random(7)
    code = make()
    # Reed-Solomon codes over bytes have at most 255 symbols.
    code_limit = 255 if code.max_symbols < 256 else 1 << 16
    limit = min(2 * symbols + 20, code_limit)
    required = min(symbols + code.excess + _SPARE, limit)
    draws = [rng.sample(range(limit), required) for _ in range(_DRAWS)]
    return _not_decoded(make, symbols, size, draws)


def _too_early(make: Callable[[], BlockCode], symbols: int, size: int) -> str | None:
    """Return a message if a block is decoded from too few symbols, else None."""
    code = make()
    encoder = code.encoder(_block(symbols, size), size)
    decoder = code.decoder(symbols, size)
    for number in range(symbols - 1):
        if decoder.add(number, encoder.symbol(number)) is not None:
            return f"decoded from {number + 1} of {symbols} symbols"
    return None


def schedule_format_checks(write: ScheduleFormat) -> list[Check]:
    """Return the checks of a format of schedules.

    The schedule of an all-to-all exchange must be written. A schedule of transfers without end
    points must be written too, or refused by an InputError.

    Args:
        write: The plug-in. It returns the content of a file, and values that a command adds to its
            JSON document.
    """
    traffic = all_to_all(load_network("crossbar:4"))
    schedule = schedule_by_name(traffic, "liquid")
    traffic_without_ends = Traffic.from_transfers([["a", "b"]])

    def differs() -> str | None:
        first = write(traffic, schedule)
        second = write(traffic, schedule)
        content, added = first
        # It raises an error for a value that JSON does not have.
        json.dumps(dict(added))
        if content and first == second:
            return None
        return "empty, or two calls gave two files"

    def fails() -> str | None:
        with contextlib.suppress(InputError):
            write(traffic_without_ends, schedule_by_name(traffic_without_ends, "liquid"))
        return None

    return [
        finding("crossbar:4, all to all: the same content twice", differs),
        finding("transfers without ends: written or refused", fails),
    ]


def schedule_verifier_checks(ending: str, verify: ScheduleVerifier) -> list[Check]:
    """Return the checks of a verifier of schedules.

    A missing, an empty and an incomplete file must be refused by an InputError.

    Args:
        ending: The ending of the files.
        verify: The verifier.
    """
    network = load_network("crossbar:4")

    def accepted(content: str | None) -> str | None:
        with TemporaryDirectory() as directory, contextlib.suppress(InputError):
            file = Path(directory, f"schedule.{ending}")
            if content is not None:
                file.write_text(content)
            return f"a verdict of no schedule: {verify(str(file), network)}"
        return None

    checks = [finding("a file that is not there is refused", partial(accepted, None))]
    for text in ("", "<algo", '{"transfers": ['):
        checks.append(finding(f"{text!r} is refused", partial(accepted, text)))
    return checks


def traffic_format_checks(name: str, traffic_format: TrafficFormat) -> list[Check]:
    """Return the checks of a format of traffics.

    All messages of the format's example must be delivered on a small network, and a missing file
    must be refused.

    Args:
        name: Name of the format.
        traffic_format: The format.
    """
    network = load_network("ring:4")
    parameters = SimulationParameters()

    def example() -> Json:
        with TemporaryDirectory() as directory:
            file = traffic_format.example(Path(directory))
            return traffic_format.read(file, network, parameters)

    def lost() -> str | None:
        model = build_model(network, parameters, frozenset())
        messages = read_messages(example(), network, parameters)
        run = simulate(model, messages, parameters)
        if (run.delivered >= 0).all():
            return None
        return "a message of the example never arrives"

    def differs() -> str | None:
        # It raises an error for a value that JSON does not have.
        json.dumps(dict(example()))
        if example() == example():
            return None
        return "two calls gave two documents"

    def absent() -> object:
        return traffic_format.read(f"no-such-directory/file.{name}", network, parameters)

    return [
        finding("its example: every message arrives on ring:4", lost),
        finding("its example: the same messages twice", differs),
        finding("a file that is not there is refused", partial(must_raise, (InputError,), absent)),
    ]


def family_checks(entry: CatalogueEntry) -> list[Check]:
    """Return the checks of a family of networks.

    The checked network has the default parameters. If a parameter has no default, it is the example
    network of the family (``entry.pattern``).
    """
    has_defaults = all(parameter.default is not None for parameter in entry.parameters)
    name = entry.name if has_defaults else entry.pattern

    def network() -> Network:
        return load_network(name)

    def empty() -> str | None:
        if network().links:
            return None
        return "it has no link"

    def differs() -> str | None:
        if network() == network():
            return None
        return "two calls gave two networks"

    def unwired() -> str | None:
        if wire(network()).cables:
            return None
        return "no cable"

    def undescribed() -> str | None:
        if entry.description and entry.pattern:
            return None
        return "say what it is"

    return [
        finding(f"{name}: it builds a network", empty),
        finding(f"{name}: the same twice", differs),
        finding(f"{name}: every link joins two of its nodes", partial(_dangling, network)),
        finding(f"{name}: JSON there and back", partial(_changed_by_json, network)),
        finding(f"{name}: it can be wired", unwired),
        finding(f"{name}: it is described", undescribed),
    ]


def _dangling(make: Callable[[], Network]) -> str | None:
    """Return a message about a link whose end is not a node of the network, or None."""
    network = make()
    nodes = {node.id for node in network.nodes}
    for link in network.links:
        if link.source not in nodes or link.target not in nodes:
            return f"{link.label} leaves the network"
    return None


def _changed_by_json(make: Callable[[], Network]) -> str | None:
    network = make()
    with TemporaryDirectory() as directory:
        file = Path(directory) / "network.json"
        file.write_text(write_document(network))
        copy = load_network(str(file))
    if copy.nodes == network.nodes and copy.links == network.links:
        return None
    return "what is read differs from what was written"


def workload_checks(workload: Work) -> list[Check]:
    """Return the checks of a workload, which run its ``example`` plan on the simulator."""
    if workload.example is None:
        missing = "give Workload(example=...): a function that makes a small plan"
        return [Check(name="it gives an example plan", passed=False, detail=missing)]
    example = workload.example
    plan_check = finding(
        "its example is one of its plans", partial(_wrong_class, workload, example)
    )
    if workload.simulate is None and workload.carry is None:
        return [plan_check]

    def run() -> Judgement:
        plan = example()
        return workload.judge(plan, workload.measured(plan, How(fabric="simulator"), None))

    # All checks share one run, but for the check that compares two.
    shared_run = cache(run)

    def differs() -> str | None:
        if shared_run().verdict == run().verdict:
            return None
        return "two verdicts"

    return [
        plan_check,
        finding("a run ends in checks", partial(_without_checks, shared_run)),
        finding("its example passes", partial(_failed, shared_run)),
        finding("the same twice in virtual time", differs),
        finding(
            "its document and rows are JSON, with the verdict",
            partial(_without_document, shared_run),
        ),
    ]


def _wrong_class(workload: Work, example: Callable[[], object]) -> str | None:
    plan = example()
    if isinstance(plan, workload.plan):
        return None
    return f"a {type(plan).__name__} is no {workload.plan.__name__}"


def _without_checks(run: Callable[[], Judgement]) -> str | None:
    if run().verdict.checks:
        return None
    return "there is no check"


def _failed(run: Callable[[], Judgement]) -> str | None:
    """Return why a run is invalid, or the names of the checks that have not passed."""
    verdict = run().verdict
    if verdict.invalid:
        return verdict.invalid
    names = [check.name for check in verdict.checks if not check.passed]
    if names:
        return f"these do not hold: {', '.join(names)}"
    return None


def _without_document(run: Callable[[], Judgement]) -> str | None:
    judgement = run()
    # It raises an error for a value that JSON does not have.
    document = json.loads(json.dumps(judgement.document, allow_nan=False))
    json.dumps([dict(row) for row in judgement.rows])
    if "verdict" in document:
        return None
    return "the document has no verdict"


# The suites by the name of their group, without the prefix ``testbed.``.
_SUITES: Mapping[str, Callable[[Any], list[Check]]] = {
    "routings": routing_checks,
    "demand_routings": demand_routing_checks,
    "schedulers": scheduler_checks,
    "codes": code_checks,
    "topologies": family_checks,
    "schedule_formats": schedule_format_checks,
    "workloads": workload_checks,
}
# The suites that need the name of the plug-in too.
_NAMED_SUITES: Mapping[str, Callable[[str, Any], list[Check]]] = {
    "interconnect_routings": static_routing_checks,
    "schedule_verifiers": schedule_verifier_checks,
    "traffic_formats": traffic_format_checks,
}
