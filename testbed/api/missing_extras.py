"""What the public functions do where an extra is missing: the testbed's own error, with the command that installs
it."""

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from testbed.extras import missing_extra

P = ParamSpec("P")
R = TypeVar("R")


def with_missing_extra_error(function: Callable[P, R]) -> Callable[P, R]:
    """The same function; an import inside it that fails for want of an extra is a CapabilityError that names the
    extra."""

    @functools.wraps(function)
    def named(*words: P.args, **options: P.kwargs) -> R:
        try:
            return function(*words, **options)
        except ImportError as error:
            lack = missing_extra(error)
            if lack is None:
                raise
            raise lack from error

    return named
