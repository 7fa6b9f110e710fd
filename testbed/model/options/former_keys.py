"""Keys of JSON under the names that they had in 0.2: until 0.4 a document has each beside the present one, with the
same value.

Only what is printed or handed to a caller has both; files that are kept have the keys with which they were written.
"""

from collections.abc import Mapping
from typing import Any

_CODE = {"tolerance": "static_tolerance", "m": "source_packets", "der": "decoding_error_rate"}
ALIASES: Mapping[str, Mapping[str, str]] = {
    "ror": {**_CODE, "bound": "block_size_lower_bound"},
    "demands": {
        **_CODE,
        "least_rate": "min_rate",
        "left_out": "omitted_pairs",
        "forced_pairs": "single_link_pairs",
        "ror_of_others": "ror_without_exposed",
    },
    "download": {
        "rivals": "alternatives",
        "bytes": "file_bytes",
        "seconds": "duration_s",
        "idle_s": "outage_s",
        "last_rate_bps": "last_mile_rate_bps",
        "ratio": "goodput_ratio",
    },
    "bulk": {
        "several_machines": "machines",
        "beside": "other_switching",
        "goodput_together_bps": "concurrent_goodput_bps",
        "changing_s": "circuit_change_s",
        "repeated": "retried_transfers",
        "injected": "injected_packets",
        "dropped": "dropped_packets",
    },
    "striping": {
        "several_machines": "machines",
        "without": "disabled",
        "killed": "killed_processes",
        "cut": "cut_links",
        "impaired": "impaired_links",
        "stripe_unit": "stripe_unit_bytes",
        "file_size": "file_bytes",
        "strain": "machine_load",
        "late_s": "thread_delay_s",
        "faulty": "under_faults",
    },
    "wavelengths": {
        "seconds": "solve_s",
        "strays": "misdelivered",
        "injected": "wrong_wavelength_packets",
    },
    "simulation": {
        "circle": "deadlock_cycle",
        "measured": "measured_messages",
        "stuck_packets": "blocked_packets",
        "conserved": "packets_conserved",
        "latency_at_no_load_of_one_router_s": "zero_load_hop_latency_s",
        "in_network": "packets_in_network",
        "waiting": "packets_in_source_queues",
        "nac_timeline": "nac_trace",
    },
    "experiment": {
        "does": "summary",
        "answers": "claim",
    },
    "replicate": {"book": "report"},
    "doctor": {"carried": "capacity"},
    "plugins": {"ours": "builtin", "broken": "error"},
}
"""Workload or command -> former key -> present one, wherever in its documents but in verdicts and plans, whose keys
stay."""
_OTHERS = ("verdict", "plan")


def with_aliases(document: Any, aliases: Mapping[str, str]) -> Any:
    """The document with every renamed key under both names.

    >>> with_aliases({"faults": [{"cut": 1}], "verdict": {"cut": 2}}, {"cut": "cut_links"})
    {'faults': [{'cut': 1, 'cut_links': 1}], 'verdict': {'cut': 2}}
    """
    if isinstance(document, Mapping):
        found: dict[str, Any] = {}
        for key, value in document.items():
            found[key] = value if key in _OTHERS else with_aliases(value, aliases)
            if key in aliases:
                found[aliases[key]] = found[key]
        return found
    return [with_aliases(one, aliases) for one in document] if isinstance(document, (list, tuple)) else document
