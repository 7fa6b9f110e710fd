"""What every command keeps to: errors are one line on stderr and an exit code, and values are written one way everywhere.

An error is never a traceback or half a page of usage. A size, rate or time is a number with a unit (``1.5MB``, ``20Mbit/s``,
``250ms``), or a plain number of bytes, bits a second or seconds; a pattern is a file of pairs; a recording is LINK=FILE.
"""

from __future__ import annotations

import argparse
import itertools
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from testbed.errors import InputError

if TYPE_CHECKING:
    from testbed.faults.fault import Fault
    from topologies.network import LinkId, Network

_THOUSANDS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9}
_BYTES = _THOUSANDS | {"ki": 2**10, "mi": 2**20, "gi": 2**30}
SIZES = {prefix + unit: factor for prefix, factor in _BYTES.items() for unit in ("", "b")}
RATES = {
    prefix + unit: factor
    for (prefix, factor), unit in itertools.product(_THOUSANDS.items(), ("", "b", "bit", "bps", "bit/s"))
}
TIMES = {"": 1.0, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}


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


def size_bytes(text: str) -> int:
    """Bytes of ``1MB``, ``500kB``, ``64KiB``, ``4e6`` or ``1000``, for argparse; one byte at least."""
    size = _scaled(text, SIZES)
    if not 1 <= size < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: give one byte or more, as in 1MB, 500kB or 64KiB")
    return round(size)


def rate_bps(text: str) -> float:
    """Bits a second of ``20Mbps``, ``20Mbit/s``, ``1G`` or ``1e7``, for argparse; above 0."""
    rate = _scaled(text, RATES)
    if not 0 < rate < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}: give bits a second, above 0, as in 20Mbps")
    return rate


def seconds(text: str) -> float:
    """Seconds of ``2.5``, ``250ms``, ``5min`` or ``inf``, for argparse; 0 or more."""
    time_s = _scaled(text, TIMES)
    if not time_s >= 0:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds, 0 or more, as in 2.5 or 250ms")
    return time_s


def time_limit(text: str) -> float:
    """Seconds as above, for argparse: more than 0."""
    limit_s = seconds(text)
    if not limit_s > 0:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds, more than 0")
    return limit_s


def search_limit(text: str) -> float:
    """Seconds that a search may take, for argparse: more than 0, a day at most."""
    limit_s = time_limit(text)
    if limit_s > 86_400:
        raise argparse.ArgumentTypeError(f"{text!r}: give seconds, more than 0 and at most a day")
    return limit_s


def _scaled(text: str, units: Mapping[str, float]) -> float:
    """The number before the longest unit that fits, times that unit; not a number where there is none."""
    word = text.strip().lower()
    for unit in sorted(units, key=len, reverse=True):
        if word.endswith(unit):
            try:
                return float(word[: len(word) - len(unit)]) * units[unit]
            except ValueError:
                continue
    return math.nan


def read_pattern(file: str, network: Network) -> tuple[tuple[str, str], ...]:
    """The pairs of nodes of a ``--pattern FILE``; InputError or TopologyError names the pair that is none."""
    from testbed.model.json_values import read_json
    from testbed.scheduling.traffic.patterns import parse_pairs

    where = f"--pattern {file}"
    return tuple(parse_pairs(read_json(file, where, mend="give all-to-all or a file of pairs"), network, where))


def read_faults(file: str | Path, network: Network, *, mend: str = "give a JSON file") -> tuple[Fault, ...]:
    """The faults of a ``--faults FILE``. InputError where it cannot be read (it ends with ``mend``) or names what is no fault."""
    from testbed.faults.grammar import parse_fault_document
    from testbed.model.json_values import read_json

    where = f"--faults {file}"
    return parse_fault_document(read_json(file, where, mend=mend), network, where)


def parse_captures(words: Sequence[str], network: Network, *, named: bool) -> dict[LinkId, Path]:
    """``LINK=FILE`` of each --pcap; without ``named`` the file may be left out, and is named after the link.

    Raises InputError for another form, a link that is not there, and a directory that is not there.
    """
    from testbed.faults.grammar import parse_link

    captures = {}
    for word in words:
        link, _, path = word.partition("=")
        if named and not path:
            raise InputError(f"--pcap {word!r}: write LINK=FILE, for example 's1->s2=link.pcap'")
        file = Path(path or link.replace("->", "-").replace("#", "-") + ".pcap")
        if not file.absolute().parent.is_dir():
            raise InputError(f"--pcap {word!r}: there is no directory {file.absolute().parent}")
        captures[parse_link(link, network)] = file
    return captures
