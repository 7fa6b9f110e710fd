"""How many examples a property is tried with: all of them in `make soak` and against mutants, a quarter in `make test`,
which draws others each time."""

import os
import sys

from hypothesis import settings

SOAK = os.environ.get("TESTBED_SOAK") == "1"
ALL = SOAK or "--hypothesis-profile=mutants" in sys.argv
FEWEST = 10


def drawn_of(count: int) -> int:
    """Examples to draw where the whole number is ``count``."""
    return count if ALL else max(min(count, FEWEST), count // 4)


def drawn(count: int) -> settings:
    """The settings of a property of which ``count`` examples are the whole number."""
    return settings(max_examples=drawn_of(count))
