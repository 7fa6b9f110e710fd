"""What every command keeps to: errors are one line on stderr and an exit code, never a traceback or half a page of usage."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors are one line on stderr and exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def reported(action: Callable[[], int]) -> int:
    """Run the action; an error that it is meant to raise becomes one line on stderr and its exit code."""
    from testbed.errors import TestbedError
    from topologies.errors import TopologyError

    try:
        code = action()
        sys.stdout.flush()
        return code
    except TestbedError as error:
        return _complain(str(error), error.exit_code)
    except TopologyError as error:
        return _complain(str(error), 2)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return _complain("interrupted", 130)


def _complain(message: str, code: int) -> int:
    print("testbed: " + " ".join(message.split()), file=sys.stderr)
    return code
