"""The recorded invocations, and the files that they read.

All run in virtual time, with stated seeds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import testbed

STREAM = "stream ring:4 --from s0 --to s2 --fabric simulator --packet-rate 500"

# Files in the folder in which the invocations run, by name.
FILES: dict[str, Any] = {
    "faults.json": [
        {"link": "s0->s1", "start_s": 1, "stop_s": 2},
        {"link": "s3->s0", "start_s": 5, "stop_s": 6, "kind": "blackhole"},
    ],
    "pairs.json": {"pairs": [["t0", "r1"], ["t1", "r2"], ["t2", "r0"]]},
    "transfers.json": {"transfers": [["a", "b"], ["b", "c"], ["a", "c"]]},
    "messages.json": {
        "messages": [
            {"source": "h0_0", "destination": "h1_1", "bytes": 4096, "time_s": 0.0},
            {"source": "h1_1", "destination": "h0_0", "bytes": 2048, "time_s": 1e-5},
        ]
    },
    "square.json": {
        "nodes": [
            {"id": n, "kind": "host" if n in "ab" else "switch"} for n in ("a", "b", "1", "2", "3")
        ],
        "links": [
            {"source": s, "target": t, "capacity_bps": 1e7}
            for s, t in (("a", "1"), ("1", "2"), ("1", "3"), ("2", "3"), ("2", "b"))
        ],
    },
    "demands.json": {"demands": [{"source": "s0", "target": "s2", "bps": 3e6}]},
}

# Arguments of ``testbed`` by name; the exit code and the JSON on stdout are recorded.
JSON: dict[str, str] = {
    "topology-swiss-t1": "topology show swiss-t1 --json",
    "topology-file": "topology show square.json --json",
    "topology-list": "topology list --json",
    "route-capillary": "route swiss-t1 --from s1 --to s6 --routing capillary --json",
    "route-layers": "route optical-cloud --from x1 --to x11 --routing capillary:2 --json",
    "route-file": "route square.json --from a --to b --routing ecmp --json",
    "ror-methods": "ror swiss-t1 --from s1 --to s6 --routing single --routing capillary --json",
    "ror-large-blocks": "ror torus:4x4 --from s0_0 --to s2_2 --large-blocks --json",
    "demands-uniform": "demands ring:4 --routing ecmp --routing capillary --json",
    "schedule-pairs": "schedule swiss-t1 --pattern pairs-of-nodes.json --json",
    "schedule-liquid": "schedule swiss-t1:allocation=1-1-1-1-0-0-0-0 --pattern all-to-all --json",
    "schedule-exact": "schedule --traffic transfers.json --scheduling exact --json",
    "schedule-round-robin": "schedule crossbar:4 --pattern all-to-all --scheduling round-robin --json",
    "allocate": "allocate swiss-t1 --nodes 8 --json",
    "stream-each-link": f"{STREAM} --faults each-link --json",
    "stream-blackhole": f"{STREAM} --faults each-link --fault-kind blackhole --max-faults 2 --json",
    "stream-loss": f"{STREAM} --faults 's0->s1@2-4 loss 0.2' --json",
    "stream-poisson": f"{STREAM} --faults poisson:rate=0.2,lasts=1 --duration 12 --json",
    "stream-file": f"{STREAM} --faults faults.json --json",
    "stream-none": f"{STREAM} --faults none --duration 3 --json",
    "stream-two": f"{STREAM} --flow s1:s3 --max-faults 1 --json",
    "stream-probe": f"{STREAM} --probe-block-size --probe-blocks 200 --json",
    "stream-ecmp": f"{STREAM} --routing ecmp --label-order random --max-faults 2 --json",
    "mobility": "mobility manet:nodes=12,seed=2 --from n0 --to n5 --frames 3 --fabric simulator --json",
    "download": "download swiss-t1 --from s1 --to s6 --fabric simulator --json",
    "download-reed-solomon": "download ring:4 --from s0 --to s2 --code reed-solomon --fabric simulator --json",
    "download-constant-rate": "download ring:4 --from s0 --to s2 --constant-rate --fabric simulator --json",
    "bulk-circuit": "bulk torus:3x3 --fabric simulator --message-size 100kB --json",
    "bulk-packet": "bulk crossbar:4 --fabric simulator --switching packet --no-comparison --message-size 100kB --json",
    "bulk-pattern": "bulk crossbar:4 --fabric simulator --pattern pairs.json --message-size 100kB --json",
    "bulk-faults": "bulk ring:4 --fabric simulator --faults s0->s1@0.1-0.3 --message-size 100kB --json",
    "sfio-write": "sfio swiss-t1 --compute-nodes 3 --io-nodes 3 --fabric simulator --json",
    "sfio-both": "sfio crossbar:4 --compute-nodes 2 --io-nodes 2 --operation both --fabric simulator --json",
    "sfio-strided": "sfio crossbar:4 --compute-nodes 2 --io-nodes 2 --access strided --file-size 200kB --fabric "
    "simulator --json",
    "wavelengths": "wavelengths optical-cloud --fabric none --json",
    "wavelengths-simulator": "wavelengths optical-cloud --fabric simulator --json",
    "simulate": "simulate torus:4x4 --load 0.2 --duration 1e-4 --json",
    "simulate-nac": "simulate torus:4x4 --load 0.5 --deadlock-avoidance nac --duration 1e-4 --json",
    "simulate-rates": "simulate torus:4x4 --loads 0.1:0.3:0.1 --duration 1e-4 --json",
    "simulate-traffic": "simulate torus:4x4 --traffic messages.json --json",
    "simulate-ft-drb": "simulate torus:4x4 --routing ft-drb --faults s0_0-s0_1 --load 0.1 --duration 1e-4 --json",
    "campaign-list": "campaign --list --json",
    "experiment-list": "experiment list --json",
    "plugins-list": "plugins list --json",
    "schema-network": "schema network",
}

# Arguments of ``testbed`` by name; the exit code and the text are recorded.
TEXT: dict[str, str] = {
    **{
        f"help-{name}": f"{name} --help"
        for name in (
            "stream",
            "mobility",
            "download",
            "bulk",
            "sfio",
            "wavelengths",
            "simulate",
            "campaign",
            "schedule",
            "ror",
            "up",
        )
    },
    "help": "--help",
    "unknown-option": "stream ring:4 --from s0 --to s2 --tolerence 0.1",
    "unknown-command": "straem",
    "unknown-node": "route ring:4 --from s0 --to s9",
    "unknown-network": "topology show nosuch",
    "no-link": "stream ring:4 --from s0 --to s2 --faults s0->s2@1-2",
    "out-of-bounds": "simulate torus:4x4 --load 7e99",
}

# The library's plan for the command of this name; its document is recorded as well.
TWINS: dict[str, Callable[[], Any]] = {
    "stream-each-link": partial(
        testbed.stream_plan, "ring:4", "s0", "s2", rate_pps=500, faults="each-link"
    ),
    "stream-none": partial(
        testbed.stream_plan, "ring:4", "s0", "s2", rate_pps=500, faults="none", duration_s=3
    ),
    "mobility": partial(
        testbed.mobility_plan, [f"manet:nodes=12,seed=2,frame={k}" for k in range(3)], "n0", "n5"
    ),
    "download": partial(testbed.download_plan, "swiss-t1", "s1", "s6"),
    "bulk-circuit": partial(testbed.bulk_plan, "torus:3x3", message_bytes=100_000),
    "sfio-both": partial(testbed.striping_plan, "crossbar:4", 2, 2, operation="both"),
    "wavelengths": partial(testbed.wavelength_plan, "optical-cloud"),
    "simulate": partial(testbed.simulation_plan, "torus:4x4", 0.2, duration_s=1e-4),
}


def write_files(folder: Path) -> None:
    """Write all files that the invocations name into the folder."""
    for name, value in FILES.items():
        (folder / name).write_text(json.dumps(value))
    (folder / "pairs-of-nodes.json").write_text(
        json.dumps({"pairs": [["t0", "r5"], ["t4", "r1"], ["t8", "r9"]]})
    )
