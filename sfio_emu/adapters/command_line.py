"""The parser of the programs in this package: errors are one line, with exit code 2."""

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser that does not print its usage before an error."""

    def error(self, message: str) -> NoReturn:
        """Print the error and exit."""
        self.exit(2, f"{self.prog}: {message}; see --help\n")
