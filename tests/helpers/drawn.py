"""Numbers of examples with which a property is tested.

`make soak` and the tests of mutants use all of them. `make test` uses a quarter, with other examples
each time.
"""

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
