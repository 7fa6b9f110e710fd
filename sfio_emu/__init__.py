"""The striped-file emulator of Chapter 2: files striped over I/O nodes in units of a few bytes.

This package has the functions of Gabrielyan 2007, appendix A, `StripedFile`, and the errors.
docs/workloads/striping.md describes how to set up a session.
"""

from sfio_emu.client.catalogue import mexists, mlist, mstat
from sfio_emu.client.current_session import set_session_factory, use
from sfio_emu.client.nonblocking import Request, wait_all
from sfio_emu.client.session import Session
from sfio_emu.errors import (
    ListenerLost,
    PeerError,
    ProtocolError,
    RemoteFailure,
    SfioError,
    StaleFileError,
    UsageError,
)
from sfio_emu.interface import (
    mchsize,
    mclose,
    mcreate,
    mdelete,
    merror,
    merrora,
    mopen,
    mread,
    mreadb,
    mreadc,
    mrename,
    mwrite,
    mwriteb,
    mwritec,
    prioerrora,
    rank,
    size,
)
from sfio_emu.layout.striping import Layout
from sfio_emu.ports import FreeTurns, SoloGroup
from sfio_emu.settings import Settings
from sfio_emu.striped_file import StripedFile


def _from_environment() -> Session:
    """Make the session of a program that `testbed run` started."""
    # The adapters import sockets and threads, which a program with a session of its own may not
    # need.
    from sfio_emu.adapters.environment import session_from_environment

    return session_from_environment()


set_session_factory(_from_environment)

__all__ = [
    "FreeTurns",
    "Layout",
    "ListenerLost",
    "PeerError",
    "ProtocolError",
    "RemoteFailure",
    "Request",
    "Session",
    "Settings",
    "SfioError",
    "SoloGroup",
    "StaleFileError",
    "StripedFile",
    "UsageError",
    "mchsize",
    "mclose",
    "mcreate",
    "mdelete",
    "merror",
    "merrora",
    "mexists",
    "mlist",
    "mopen",
    "mread",
    "mreadb",
    "mreadc",
    "mrename",
    "mstat",
    "mwrite",
    "mwriteb",
    "mwritec",
    "prioerrora",
    "rank",
    "size",
    "use",
    "wait_all",
]
