"""The session of this process: the one that `use` has set, else one made on first use from what `testbed run` put into the environment.
The functions of Appendix A and `StripedFile.open` take it where they are not given another."""

from __future__ import annotations

from sfio_emu.client.session import Session
from sfio_emu.errors import UsageError

_session: Session | None = None


def use(session: Session | None) -> None:
    """Set the session of this process; None: make it anew from the environment when next needed."""
    global _session
    if session is not None and not isinstance(session, Session):
        raise UsageError(f"a {type(session).__name__} is no session: give a Session, or None")
    _session = session


def current_session() -> Session:
    """The session of this process; raises `UsageError` where the environment describes none."""
    global _session
    if _session is None:
        # The only reach for an adapter: a program that `testbed run` started hands no connections over.
        from sfio_emu.adapters.environment import session_from_environment

        _session = session_from_environment()
    return _session


__all__ = ["current_session", "use"]
