"""Faults as a command line, a file and the library give them: text, a file of them, texts and values."""

from collections.abc import Sequence
from pathlib import Path

from testbed.errors import require_type
from testbed.faults.fault import Fault
from testbed.faults.grammar import no_faults, parse_fault, parse_fault_document, parse_fault_list
from testbed.model.json_values import is_file, read_json
from topologies import Network

FAULT_WORDS = "LINK@START-STOP [MANNER],..."
"""How faults are written on a command line, wherever a file of them may stand too (``testbed.faults.grammar``)."""
FaultsLike = str | Path | Sequence[str | Fault]
"""``FAULT_WORDS``, a file, "none", or a sequence of single faults, each as text or as a value."""


def read_faults(
    requested: FaultsLike, network: Network, *, hint: str = "give a JSON file"
) -> tuple[Fault, ...]:
    """The faults of the network. InputError where a file cannot be read (it ends with ``mend``) or where what is said
    is no fault, UsageError for a value of another type."""
    if not isinstance(requested, (str, Path)):
        require_type(
            requested, (list, tuple), "faults", 'a list of faults such as "s1->s2@0.5-1 down"'
        )
        for one in requested:
            require_type(
                one, (str, Fault), "fault", 'a text such as "s1->s2@0.5-1 down" or a Fault'
            )
        return tuple(
            parse_fault(one, network) if isinstance(one, str) else one for one in requested
        )
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
