"""How the programs of this package read their options: what is wrong is said in one line, with exit code 2."""

import argparse
from typing import NoReturn


class OneLineParser(argparse.ArgumentParser):
    """A parser that does not print its usage before what is wrong."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}; see --help\n")
