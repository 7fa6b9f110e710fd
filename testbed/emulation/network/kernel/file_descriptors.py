"""Room for the open files of many hosts, and out of the way of programs that wait with select, which knows numbers
below 1024 only."""

import fcntl
import os
import resource

_FIRST = 1024
"""What select cannot wait for may as well lie here."""


def raise_open_file_limit() -> None:
    """Let this process open as many files as it is ever allowed to: two a host are held, and the usual limit is
    1024."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def move_above_select_limit(descriptor: int) -> int:
    """The same open file under a number that leaves those below 1024 to others; the given one where there is no such
    number."""
    try:
        moved = fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _FIRST)
    except OSError:
        return descriptor
    os.close(descriptor)
    return moved
