"""The suite of each group of plug-ins, and the registries in which they are; codes, formats of files, families of
networks and workloads are judged here."""

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
    """Group -> its registry, in the order in which they are listed."""
    from testbed.api.workloads.registry import WORKLOADS
    from testbed.download.codes import CODES

    listed: list[Registry[Any]] = [
        ROUTINGS, DEMAND_ROUTINGS, SCHEDULERS, CODES, STATIC_ROUTINGS, FAMILIES, WORKLOADS,
        SCHEDULE_FORMATS, SCHEDULE_VERIFIERS, TRAFFIC_FORMATS,
    ]  # fmt: skip
    return {registry.group: registry for registry in listed}


def check(group: str, name: str) -> Verdict:
    """Judge what is registered there by the group's suite; takes seconds. InputError for an unknown group or name.

    >>> check("testbed.routings", "single").passed
    True
    """
    found = registries()
    if group not in found:
        raise InputError(f"group {group!r}; give one of {', '.join(found)}")
    thing = found[group].find(name)
    if thing is None:
        raise InputError(
            f"{group}: there is no {name!r}; there are {', '.join(found[group].names())}"
        )
    if ":" in name and group in ("testbed.routings", "testbed.demand_routings"):
        thing = _with_parameter(thing, name.partition(":")[2])
    return Verdict(checks=tuple(_SUITES[group.removeprefix("testbed.")](name, thing))).keyed()


def group_of(name: str) -> str:
    """Return the group that has the name, also with a parameter (``capillary:3``).

    Raises:
        InputError: No group has it, or several have.
    """
    groups = [group for group, registry in registries().items() if registry.has(name)]
    if len(groups) != 1:
        where = (
            "no group has it"
            if not groups
            else f"it is in {', '.join(groups)}; say which by --group"
        )
        raise InputError(f"plug-in {name!r}: {where}; testbed plugins lists all")
    return groups[0]


def _with_parameter(make: Callable[[str], Any], text: str) -> Any:
    """The routing for the text after the colon, or, where that only says what stands there, for a usual number."""
    for number in (text, "2", "0.05", "1.2"):
        try:
            return make(number)
        except InputError as error:
            wrong = error
    raise wrong


SIZES = ((1, 64), (5, 64), (40, 256), (100, 1024))
"""(source symbols, bytes of each)."""
_DRAWS, _SPARE = 8, 3


def code_checks(make: Callable[[], BlockCode]) -> list[Check]:
    """One check a property and size."""
    found = [finding("it says what it is", lambda: _undescribed(make()))]
    for symbols, size in SIZES:
        where = f"{symbols} symbols of {size} bytes"
        found += [
            finding(
                f"{where}: the source symbols alone",
                partial(_fails, make, symbols, size, [range(symbols)]),
            ),
            finding(
                f"{where}: random symbols of the first two blocks' worth",
                partial(_random, make, symbols, size),
            ),
            finding(
                f"{where}: too few symbols give nothing", partial(_too_early, make, symbols, size)
            ),
        ]
    return found


def _undescribed(code: BlockCode) -> str | None:
    if not isinstance(code.name, str) or not code.most_symbols >= 1 or not code.excess >= 0:
        said = f"name {code.name!r}, most_symbols {code.most_symbols!r}, excess {code.excess!r}"
        return f"{said}; give a text, 1 or more, 0 or more"
    return None


def _block(symbols: int, size: int) -> bytes:
    return random.Random(symbols * size).randbytes(symbols * size)


def _fails(
    make: Callable[[], BlockCode], symbols: int, size: int, draws: Sequence[Sequence[int]]
) -> str | None:
    code, data = make(), _block(symbols, size)
    encoder = code.encoder(data, size)
    for numbers in draws:
        decoder = code.decoder(symbols, size)
        given = 0
        for number in numbers:
            symbol = encoder.symbol(number)
            if len(symbol) != size:
                return f"symbol {number} has {len(symbol)} bytes, not {size}"
            given += 1
            decoded = decoder.add(number, symbol)
            if decoded is not None:
                break
        else:
            return f"not decoded from {given} different symbols"
        if decoded != data:
            return f"decoded from {given} symbols, but to other bytes"
    return None


def _random(make: Callable[[], BlockCode], symbols: int, size: int) -> str | None:
    draw, code = random.Random(7), make()
    most = min(2 * symbols + 20, 255 if code.most_symbols < 256 else 1 << 16)
    required = min(symbols + code.excess + _SPARE, most)
    return _fails(make, symbols, size, [draw.sample(range(most), required) for _ in range(_DRAWS)])


def _too_early(make: Callable[[], BlockCode], symbols: int, size: int) -> str | None:
    code = make()
    encoder, decoder = code.encoder(_block(symbols, size), size), code.decoder(symbols, size)
    for number in range(symbols - 1):
        if decoder.add(number, encoder.symbol(number)) is not None:
            return f"decoded from {number + 1} of {symbols} symbols"
    return None


def schedule_format_checks(write: ScheduleFormat) -> list[Check]:
    """An exchange of all with all is written; transfers without ends are written or refused, never an error of another
    kind."""
    traffic = all_to_all(load_network("crossbar:4"))
    schedule = schedule_by_name(traffic, "liquid")
    lone = Traffic.from_transfers([["a", "b"]])

    def differs() -> str | None:
        (content, added), again = write(traffic, schedule), write(traffic, schedule)
        json.dumps(dict(added))
        return (
            None if content and (content, added) == again else "empty, or two calls gave two files"
        )

    def fails() -> str | None:
        with contextlib.suppress(InputError):
            write(lone, schedule_by_name(lone, "liquid"))
        return None

    return [
        finding("crossbar:4, all to all: the same content twice", differs),
        finding("transfers without ends: written or refused", fails),
    ]


def schedule_verifier_checks(ending: str, verify: ScheduleVerifier) -> list[Check]:
    """What is no schedule is refused by InputError, never an error of another kind: a file that is not there, an empty
    one, half a document."""
    network = load_network("crossbar:4")

    def accepted(content: str | None) -> str | None:
        with TemporaryDirectory() as directory, contextlib.suppress(InputError):
            file = Path(directory, f"schedule.{ending}")
            if content is not None:
                file.write_text(content)
            return f"a verdict of no schedule: {verify(str(file), network)}"
        return None

    return [
        finding("a file that is not there is refused", lambda: accepted(None)),
        *(
            finding(f"{text!r} is refused", partial(accepted, text))
            for text in ("", "<algo", '{"transfers": [')
        ),
    ]


def traffic_format_checks(name: str, traffic_format: TrafficFormat) -> list[Check]:
    """The format's example arrives on a small network; a file that is not there is refused."""
    network, parameters = load_network("ring:4"), SimulationParameters()

    def example() -> Json:
        with TemporaryDirectory() as directory:
            return traffic_format.read(traffic_format.example(Path(directory)), network, parameters)

    def lost() -> str | None:
        run = simulate(
            build_model(network, parameters, frozenset()),
            read_messages(example(), network, parameters),
            parameters,
        )
        return None if (run.delivered >= 0).all() else "a message of the example never arrives"

    def differs() -> str | None:
        json.dumps(dict(example()))
        return None if example() == example() else "two calls gave two documents"

    def absent() -> object:
        return traffic_format.read(f"no-such-directory/file.{name}", network, parameters)

    return [
        finding("its example: every message arrives on ring:4", lost),
        finding("its example: the same messages twice", differs),
        finding("a file that is not there is refused", lambda: must_raise((InputError,), absent)),
    ]


def family_checks(entry: CatalogueEntry) -> list[Check]:
    """By its defaults where every parameter has one, else by the pattern that it shows."""
    name = entry.name if all(p.default is not None for p in entry.parameters) else entry.pattern

    def network() -> Network:
        return load_network(name)

    return [
        finding(
            f"{name}: it builds a network", lambda: None if network().links else "it has no link"
        ),
        finding(
            f"{name}: the same twice",
            lambda: None if network() == network() else "two calls gave two networks",
        ),
        finding(f"{name}: every link joins two of its nodes", lambda: _stray(network())),
        finding(f"{name}: JSON there and back", lambda: _changed(network())),
        finding(f"{name}: it can be wired", lambda: None if wire(network()).cables else "no cable"),
        finding(
            f"{name}: it is described",
            lambda: None if entry.description and entry.pattern else "say what it is",
        ),
    ]


def _stray(network: Network) -> str | None:
    nodes = {node.id for node in network.nodes}
    return next(
        (
            f"{x.label} leaves the network"
            for x in network.links
            if not {x.source, x.target} <= nodes
        ),
        None,
    )


def _changed(network: Network) -> str | None:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "network.json"
        file.write_text(write_document(network))
        again = load_network(str(file))
    return (
        None
        if (again.nodes, again.links) == (network.nodes, network.links)
        else "what is read differs from what was written"
    )


def workload_checks(workload: Work) -> list[Check]:
    """On the simulator, by the workload's own ``example`` plan."""
    if workload.example is None:
        missing = "give Workload(example=...): a function that makes a small plan"
        return [finding("it gives an example plan", lambda: missing)]
    example = workload.example
    if workload.simulate is None and workload.carry is None:
        return [finding("its example is one of its plans", lambda: _stranger(workload, example()))]

    def again() -> Judgement:
        plan = example()
        return workload.judge(plan, workload.measured(plan, How(fabric="simulator"), None))

    judged = cache(again)
    return [
        finding("its example is one of its plans", lambda: _stranger(workload, example())),
        finding(
            "a run ends in checks", lambda: None if judged().verdict.checks else "there is no check"
        ),
        finding("its example passes", lambda: _failed(judged())),
        finding(
            "the same twice in virtual time",
            lambda: None if judged().verdict == again().verdict else "two verdicts",
        ),
        finding("its document and rows are JSON, with the verdict", lambda: _no_document(judged())),
    ]


def _stranger(workload: Work, plan: object) -> str | None:
    return (
        None
        if isinstance(plan, workload.plan)
        else f"a {type(plan).__name__} is no {workload.plan.__name__}"
    )


def _failed(judged: Judgement) -> str | None:
    wrong = [check.name for check in judged.verdict.checks if not check.passed]
    return judged.verdict.invalid or (f"these do not hold: {', '.join(wrong)}" if wrong else None)


def _no_document(judged: Judgement) -> str | None:
    document = json.loads(json.dumps(judged.document, allow_nan=False))
    json.dumps([dict(row) for row in judged.rows])
    return None if "verdict" in document else "the document has no verdict"


_SUITES: Mapping[str, Callable[[str, Any], list[Check]]] = {
    "routings": lambda _, thing: routing_checks(thing),
    "demand_routings": lambda _, thing: demand_routing_checks(thing),
    "schedulers": lambda _, thing: scheduler_checks(thing),
    "codes": lambda _, thing: code_checks(thing),
    "interconnect_routings": static_routing_checks,
    "topologies": lambda _, thing: family_checks(thing),
    "schedule_formats": lambda _, thing: schedule_format_checks(thing),
    "schedule_verifiers": schedule_verifier_checks,
    "traffic_formats": traffic_format_checks,
    "workloads": lambda _, thing: workload_checks(thing),
}
"""Of each group, but for the package's name before it."""
