"""The session of this process: the one that `use` has set, else one made on first use from what `testbed run` put into
the environment. The functions of Appendix A and `StripedFile.open` take it where they are not given another."""

from collections.abc import Callable

from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError

_session: Session | None = None
_otherwise: Callable[[], Session] | None = None


def made_by(make: Callable[[], Session]) -> None:
    """How a session is made where a process needs one and none was given; the package says so when it is imported."""
    global _otherwise
    _otherwise = make


def use(session: Session | None) -> None:
    """Set the session of this process; None: make it again from the environment when next needed."""
    global _session
    if session is not None and not isinstance(session, Session):
        raise UsageError(f"a {type(session).__name__} is no session: give a Session, or None")
    _session = session


def session_in_use() -> Session | None:
    """The session of this process, if one was set or made already."""
    return _session


def current_session() -> Session:
    """The session of this process; raises `UsageError` where the environment describes none."""
    global _session
    if _session is None:
        if _otherwise is None:
            raise UsageError("this process has no session: give one (sfio_emu.use)")
        _session = _otherwise()
    return _session
