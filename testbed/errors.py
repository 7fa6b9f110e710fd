"""The testbed's errors and the exit code each ends a command with (see docs/guide/commands.md)."""

from __future__ import annotations


class TestbedError(Exception):
    """Root of what a command reports in one line; never raised itself."""

    __test__ = False  # pytest: a name that starts with Test, not a test
    exit_code = 1


class InputError(TestbedError, ValueError):
    """The caller's mistake: what, where, how to mend it. Exit code 2."""

    exit_code = 2


class CapabilityError(TestbedError):
    """This machine lacks something: what, and what to install or allow. Exit code 3."""

    exit_code = 3


class TimeLimitError(TestbedError):
    """A program was ended because it took longer than it was given. Exit code 124, as of timeout(1)."""

    exit_code = 124


class InvalidRunError(TestbedError):
    """The machine could not keep up, so the measurement says nothing. Exit code 4."""

    exit_code = 4
