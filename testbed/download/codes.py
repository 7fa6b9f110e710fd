"""Codes for large blocks by name, of this package and of plug-ins (group ``testbed.codes``).

A code is a class, or a function without arguments, whose value is a
``fec.protocol.large_blocks.BlockCode``.
"""

from collections.abc import Callable

from fec import FecError
from fec.adapters.raptorq_blocks import RaptorQBlocks
from fec.code.block_codes import ReedSolomonBlocks
from fec.protocol.large_blocks import BlockCode
from testbed.errors import InputError, TestbedError
from topologies.registry import Registry, function_check

CODES: Registry[Callable[[], BlockCode]] = Registry(
    "testbed.codes", "code", function_check("no argument"), (TestbedError, FecError)
)
CODES.register("raptorq", RaptorQBlocks)
CODES.register("reed-solomon", ReedSolomonBlocks)


def block_code(name: str) -> BlockCode:
    """Return a new code of this name.

    Raises:
        InputError: The name is unknown.
    """
    make = CODES.find(name)
    if make is None:
        raise InputError(f"code {name!r}; {CODES.nearest(name)}")
    return make()
