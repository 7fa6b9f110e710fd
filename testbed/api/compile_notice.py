"""Says on stderr that code is being compiled for this machine, and what: where nothing is compiled ahead for its
processor, the first use of an algorithm takes seconds.

``testbed doctor --compile`` does all of it ahead.
"""

import logging
import sys


def announce_compilation() -> None:
    """From now on, in this process; a second call changes nothing. The logger is named and not imported: fec is
    large."""
    logger = logging.getLogger("fec.jit")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("testbed: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def announce_to_people() -> None:
    """The same where somebody looks: at a terminal, or in a notebook. Other programs that use the library are left in
    peace."""
    if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        announce_compilation()
