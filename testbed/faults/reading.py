"""Reads faults from a command line, a file or arguments of the library."""

from collections.abc import Sequence
from pathlib import Path

from testbed.errors import require_type
from testbed.faults.fault import Fault
from testbed.faults.grammar import no_faults, parse_fault, parse_fault_document, parse_fault_list
from testbed.model.json_values import is_file, read_json
from topologies import Network

# The form of faults on a command line, wherever a file may be given too
# (``testbed.faults.grammar``).
FAULT_WORDS = "LINK@START-STOP [MANNER],..."
# Text of this form, a file, "none", or a sequence of single faults, each as text or as a value.
FaultsLike = str | Path | Sequence[str | Fault]


def read_faults(
    requested: FaultsLike, network: Network, *, hint: str = "give a JSON file"
) -> tuple[Fault, ...]:
    """Return the requested faults of a network.

    Args:
        requested: The faults as text, as a file, or as a sequence of texts and values.
        network: The network.
        hint: How the error about an unreadable file ends.

    Raises:
        InputError: A file cannot be read, or a fault is not valid.
        UsageError: A value is of another type.
    """
    if not isinstance(requested, (str, Path)):
        require_type(
            requested, (list, tuple), "faults", 'a list of faults such as "s1->s2@0.5-1 down"'
        )
        # Check all types before any text is parsed.
        for fault in requested:
            require_type(
                fault, (str, Fault), "fault", 'a text such as "s1->s2@0.5-1 down" or a Fault'
            )
        faults = []
        for fault in requested:
            value = parse_fault(fault, network) if isinstance(fault, str) else fault
            faults.append(value)
        return tuple(faults)
    where = f"--faults {requested}"
    if no_faults(str(requested)):
        return ()
    if "@" in str(requested) and not is_file(requested):
        return parse_fault_list(str(requested), network)
    return parse_fault_document(
        read_json(requested, where, hint=f"{hint}, or {FAULT_WORDS}, as in s1-s2@1-3"),
        network,
        where,
        Path(requested).parent,
    )
