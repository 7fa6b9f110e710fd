"""The session of this process.

It is the one that `use` has set, or else one that is made on first use, from the environment that
`testbed run` sets. The functions of Appendix A and `StripedFile.open` use it if they are given no
other.
"""

from collections.abc import Callable

from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError

_session: Session | None = None
_make_default: Callable[[], Session] | None = None


def set_session_factory(make: Callable[[], Session]) -> None:
    """Set the function that makes a session on first use. The package calls this on import."""
    global _make_default
    _make_default = make


def use(session: Session | None) -> None:
    """Set the session of this process.

    Args:
        session: The session. None means that one is made from the environment on next use.
    """
    global _session
    if session is not None and not isinstance(session, Session):
        raise UsageError(f"a {type(session).__name__} is not a session: give a Session, or None")
    _session = session


def session_in_use() -> Session | None:
    """Return the session of this process if one has been set or made, otherwise None."""
    return _session


def current_session() -> Session:
    """Return the session of this process, after making it if there is none.

    Raises:
        UsageError: The environment describes no session.
    """
    global _session
    if _session is None:
        if _make_default is None:
            raise UsageError("this process has no session: set one (sfio_emu.use)")
        _session = _make_default()
    return _session
