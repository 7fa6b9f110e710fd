"""Judges formats of other programs' files: what is written twice is the same, what is read can be carried, what is
wrong is refused."""

import contextlib
import json
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from testbed.conformance.problem_checks import finding, must_raise
from testbed.errors import InputError
from testbed.interconnect.network_model import build_model
from testbed.interconnect.parameters import SimulationParameters
from testbed.interconnect.simulation import read_messages, simulate
from testbed.model.file_formats import ScheduleFormat, ScheduleVerifier, TrafficFormat
from testbed.model.traffic import Traffic
from testbed.model.verdict import Check
from testbed.scheduling.methods import schedule_by_name
from testbed.scheduling.traffic.patterns import all_to_all
from topologies import load_network
from topologies.text.json_types import Json


def schedule_format_checks(write: ScheduleFormat) -> list[Check]:
    """An exchange of all with all is written; transfers without ends are written or refused, never an error of another
    kind."""
    traffic = all_to_all(load_network("crossbar:4"))
    schedule = schedule_by_name(traffic, "liquid")
    lone = Traffic.from_transfers([["a", "b"]])

    def differs() -> str | None:
        (content, added), again = write(traffic, schedule), write(traffic, schedule)
        json.dumps(dict(added))
        return None if content and (content, added) == again else "empty, or two calls gave two files"

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
        *(finding(f"{text!r} is refused", partial(accepted, text)) for text in ("", "<algo", '{"transfers": [')),
    ]


def traffic_format_checks(name: str, traffic_format: TrafficFormat) -> list[Check]:
    """The format's example arrives on a small network; a file that is not there is refused."""
    network, parameters = load_network("ring:4"), SimulationParameters()

    def example() -> Json:
        with TemporaryDirectory() as directory:
            return traffic_format.read(traffic_format.example(Path(directory)), network, parameters)

    def lost() -> str | None:
        run = simulate(
            build_model(network, parameters, frozenset()), read_messages(example(), network, parameters), parameters
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
