"""Options of a run over several machines: which machines, how many, and the placement of nodes."""

from dataclasses import dataclass

from testbed.errors import InputError
from testbed.model.json_values import parse_json
from topologies import Json, JsonObject

# Limit on the machines that one computer stands in for. Each is a Dask worker, a switch daemon and
# a controller.
MAX_LOCAL_MACHINES = 16
# Time for a machine to start, in seconds. After that the run ends and names the machine.
START_S = 60.0
# Default name of the interface that connects the machines.
UNDERLAY = "underlay"


@dataclass(frozen=True, kw_only=True)
class TlsFiles:
    """The certificates for the connection to a Dask scheduler on another machine.

    A path that is None is taken from the configuration of Dask.

    Attributes:
        ca: File of the certificate authority.
        cert: File of our certificate.
        key: File of the private key of our certificate.
        without_tls: Connect over plain TCP, without authentication.
    """

    ca: str | None = None
    cert: str | None = None
    key: str | None = None
    without_tls: bool = False

    @property
    def named(self) -> bool:
        """True if any file is named."""
        return any(path is not None for path in (self.ca, self.cert, self.key))


@dataclass(frozen=True, kw_only=True)
class MachinesRequest:
    """The machines that a run uses.

    Attributes:
        count: Number of machines on this computer; 0 if ``scheduler`` is given.
        scheduler: Address of a Dask scheduler whose workers are the machines, or None.
        underlay: Name of the interface that connects the machines.
        start_s: Time for the machines to start, in seconds.
        place: A document for ``parse_placement``. If it is None, the network is partitioned by the
            number of processors of each machine.
        encrypt: Send the traffic between machines through WireGuard.
        tls: Certificates for the connection to the scheduler.
    """

    count: int
    scheduler: str | None = None
    underlay: str = UNDERLAY
    start_s: float = START_S
    place: Json | None = None
    encrypt: bool = False
    tls: TlsFiles = TlsFiles()


def parse_machines(text: str) -> MachinesRequest:
    """Parse a number of machines (``4``) or the address of a scheduler (``tls://host:8786``).

    An address may also begin with ``tcp://``.

    Raises:
        InputError: The text is neither.

    >>> parse_machines("2").count, parse_machines("tcp://h:8786").scheduler
    (2, 'tcp://h:8786')
    """
    if text.startswith(("tcp://", "tls://")):
        return MachinesRequest(count=0, scheduler=text)
    if text.isdecimal() and 1 <= int(text) <= MAX_LOCAL_MACHINES:
        return MachinesRequest(count=int(text))
    raise InputError(
        f"machines {text!r}: give a number of machines from 1 to {MAX_LOCAL_MACHINES}, "
        "or the address of a Dask scheduler, tls://HOST:PORT"
    )


def parse_placement_text(text: str, where: str) -> JsonObject:
    """Parse the file of ``--machine-placement``.

    Args:
        text: The contents of the file.
        where: Name of the file, for messages.

    Raises:
        InputError: The text is not a JSON object.
    """
    document = parse_json(text, where)
    if not isinstance(document, dict):
        raise InputError(f'{where}: give {{"machines": [[node, ...], ...]}}, one list per machine')
    return document
