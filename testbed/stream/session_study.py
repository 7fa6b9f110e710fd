"""A study of streaming sessions: each is judged as ``testbed stream`` judges it, all together are the study's verdict."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from testbed.model.studies.study import Subject
from testbed.stream.session import SessionRequest

Sessions = Sequence[tuple[str, SessionRequest]]


@dataclass(frozen=True, kw_only=True)
class SessionStudy(Subject):
    """``sessions(quick, seed)`` gives (title, request) pairs."""

    sessions: Callable[[bool, int], Sessions]
