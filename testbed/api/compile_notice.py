"""Reports on stderr which code is being compiled for this machine.

Without code that was compiled ahead for the processor, the first use of an algorithm takes seconds.
``testbed doctor --compile`` compiles everything ahead.
"""

import logging
import sys


def announce_compilation() -> None:
    """Report every compilation in this process from now on; a second call changes nothing."""
    # The logger is looked up by its name, because the import of fec takes long.
    logger = logging.getLogger("fec.jit")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("testbed: %(message)s"))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        logger.propagate = False


def announce_to_people() -> None:
    """Report every compilation if stderr is a terminal, or if this is a notebook.

    Other programs that use the library get no additional output.
    """
    if sys.stderr is not None and (sys.stderr.isatty() or "ipykernel" in sys.modules):
        announce_compilation()
