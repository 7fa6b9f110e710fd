"""What a user asks of a run over several machines: which, how many, and where the nodes lie; pure."""

from dataclasses import dataclass

from testbed.errors import InputError
from testbed.model.json_values import parse_json
from topologies import Json, JsonObject

MAX_LOCAL_MACHINES = 16
"""Machines that one machine stands for: each is a Dask worker, a switch daemon and a controller."""
START_S = 60.0
"""A machine that has not come up by then is named, and the run ends."""
UNDERLAY = "underlay"


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """How to speak to a scheduler elsewhere: files of its authority, of our certificate and its key (None: those that
    Dask's configuration names), or ``without_tls``: plain TCP, whoever may reach it."""

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    without_tls: bool = False

    @property
    def named(self) -> bool:
        """Whether any file is given."""
        return any(path is not None for path in (self.ca, self.cert, self.key))


@dataclass(frozen=True, kw_only=True)
class MachinesRequest:
    """``scheduler``: the address of a Dask scheduler whose workers are the machines, None: ``count`` machines here.

    ``underlay``: the machines' interface towards each other. ``start_s``: how long they may take to come up. ``place``:
    a document of ``parse_placement``, None: the network is cut by what the machines say they can carry.
    ``encrypt``: what crosses goes through WireGuard. ``tls``: for the scheduler's link.
    """

    count: int
    scheduler: str | None = None
    underlay: str = UNDERLAY
    start_s: float = START_S
    place: Json | None = None
    encrypt: bool = False
    tls: TlsFiles = TlsFiles()


def parse_machines(text: str) -> MachinesRequest:
    """``4``, ``tls://host:8786`` or ``tcp://host:8786``. InputError for anything else.

    >>> parse_machines("2").count, parse_machines("tcp://h:8786").scheduler
    (2, 'tcp://h:8786')
    """
    if text.startswith(("tcp://", "tls://")):
        return MachinesRequest(count=0, scheduler=text)
    if text.isdecimal() and 1 <= int(text) <= MAX_LOCAL_MACHINES:
        return MachinesRequest(count=int(text))
    raise InputError(
        f"machines {text!r}: give 1 to {MAX_LOCAL_MACHINES} machines on this one, or a Dask scheduler, tls://HOST:PORT"
    )


def parse_placement_text(text: str, where: str) -> JsonObject:
    """The document of ``--machine-placement``. InputError where it is none."""
    document = parse_json(text, where)
    if not isinstance(document, dict):
        raise InputError(f'{where}: give {{"machines": [[node, ...], ...]}}, one list a machine')
    return document
