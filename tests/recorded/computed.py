"""What pure rooms compute, over inputs of every kind, good and bad: frozen as the documents of commands are. What is
right is for other tests to say; here nothing changes unnoticed."""

from __future__ import annotations

import hashlib
import io
import itertools
import json
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from testbed.errors import TestbedError
from testbed.faults import cable_faults, fault, grammar, impaired_link, link_settings, reading
from testbed.faults.failure_traces import (
    KNOWN_STATISTICS,
    LANL_RULES,
    TraceStatistics,
    generate_trace,
    parse_fta_events,
    parse_lanl_table,
    parse_pnnl_table,
)
from testbed.faults.fault import Fault, describe
from tests.helpers.failure_samples import sample_trace
from topologies import Link, load_network
from topologies.errors import TopologyError
from topologies.impairments import parse_impairments

REFUSALS = (
    TestbedError,
    TopologyError,
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    ArithmeticError,
)
LONG = 4000
"""Characters of one value beyond which its digest is kept."""


def plain(value: Any) -> Any:
    """The value as JSON: floats to ten digits, arrays as lists, dataclasses as objects."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, float | np.floating):
        return f"{float(value) if abs(value) > 1e-12 else 0.0:.10g}"
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value.tolist()]
    if is_dataclass(value) and not isinstance(value, type):
        return {
            f.name: plain(getattr(value, f.name))
            for f in fields(value)
            if f.name not in ("network", "plan")
        }
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((plain(one) for one in value), key=str)
    if isinstance(value, bytes | bytearray | memoryview):
        return hashlib.sha256(bytes(value)).hexdigest()[:16]
    if isinstance(value, str) or value is None:
        return value
    if isinstance(value, Iterable):
        return [plain(one) for one in value]
    return repr(value)


def told(function: Callable[..., Any], *args: Any, most: int = LONG, **more: Any) -> Any:
    """What the function gives, or how it refuses; values of more than ``most`` characters as digests."""
    try:
        found = plain(function(*args, **more))
    except REFUSALS as error:
        return f"{type(error).__name__}: {error}"
    text = json.dumps(found)
    return found if len(text) <= most else hashlib.sha256(text.encode()).hexdigest()[:16]


T1, TORUS, RING = load_network("swiss-t1"), load_network("torus:4x4"), load_network("ring:5")

FAULTS = (
    "s1->s2",
    "s1->s2@1-2",
    "s1-s2@1-",
    "s1->s2@-2 blackhole",
    "s1->s2@.5-1e1 loss 0.25 one-way",
    "s1->s2 one-way",
    "s1->s2@1-2 ge:p=0.01,r=0.3",
    "s1->s2@1-2 loss:0.1 duplicate:0.2 one-way",
    "s1->s2@1-2 delay:0.01,jitter=0.002",
    "s1->s2@2-1",
    "s1->s2@x",
    "s1->s2 fire",
    "s1->s2 loss",
    "s1->s2 loss 7",
    "s1->s2 loss:7",
    "s1->s99",
    "s1",
    "",
    "s1->s2#1",
    "s1->s2 down 0.5",
    "s1->s2 loss much",
    "s1->s2@nan-1",
    "s1->s2@1-2 down one-way one-way",
    "t0->s1@1-2",
    "s1->s2@1-2 trace:nowhere.txt",
    '"s1"->"s2"@1-2',
    "s9->s1@1-2 down",
    "s1->s2@@1",
    "s1->s2 @ 1-2  blackhole ",
)
LISTS = (
    "s1->s2@1-2",
    "s2->s3@5-9 one-way, s1->s2@1-3",
    "s1->s2@1-,s2->s3@2-3 loss 0.5",
    "s1->s2@1",
    "s1->s2@1-2,",
    "s1->s2@1-2 ge:p=0.01,r=0.3,s2->s3@1-2",
    "s1->s2@1-2 ge:p=0.01, r=0.3 , s2->s3@3-4 jitter:0.01",
    ",",
    "none",
    "s1->s2@1-2 s2->s3@1-2",
    "s1->s2@1-2,s1->s9@1-2",
)
CABLES = (
    "s0_0-s0_1",
    "s0_0->s0_1@0.1-0.2",
    "random:3",
    "random:3@0.1-0.5",
    "transient:3",
    "intermittent:2",
    "line:2",
    "L:2@1-2",
    "U:1",
    "square:3",
    "square:4",
    "l:2",
    "u:2",
    "random:99",
    "random:x",
    "random:",
    "transient:3@1-2",
    "s0_0-s9_9",
    "s0_0-s2_2",
    "s0_0-h0_0",
    "s0_0-s0_1@1-2,s0_1-s0_0@1.5-3,random:2",
    "random:2,random:2",
    "",
    "x:3",
    "s0_0-s0_1@z",
    "intermittent:x",
    "intermittent:2@1-2",
    "s0_0",
    "s0_0-",
    "line:0",
)
POISSON = (
    "poisson:rate=0.01,lasts=1",
    "poisson:rate=0.01",
    "poisson:lasts=1",
    "poisson:rate=0.1,lasts=2,start=0,lengths=exponential",
    "poisson:rate=0.1,lasts=2,kind=loss,loss=0.2",
    "poisson:rate=x,lasts=1",
    "poisson:speed=1",
    "poisson:rate=0,lasts=1",
    "poisson:rate=1,lasts=1,lengths=long",
    "poisson:rate=1,lasts=1,kind=impaired",
    "poisson:rate=1,lasts=-1",
    "poisson:rate=1,lasts=1,start=-1",
    "poisson:rate=1,lasts=1,kind=loss,loss=2",
    "poisson:rate=inf,lasts=1",
)
LINK_ENTRY = {"link": "s1->s2", "start_s": 0, "stop_s": 1}
DOCUMENTS: tuple[Any, ...] = (
    [LINK_ENTRY],
    {"faults": [LINK_ENTRY]},
    [],
    {},
    7,
    [7],
    {"fault": []},
    [LINK_ENTRY | {"stop_s": None}],
    [LINK_ENTRY | {"kind": "loss", "loss_fraction": 0.5, "direction": "forward"}],
    [LINK_ENTRY | {"color": 1}],
    [LINK_ENTRY | {"impairments": "loss:0.1"}],
    [LINK_ENTRY | {"impairments": "loss:0.1", "kind": "down"}],
    [LINK_ENTRY | {"impairments": "loss:0.1", "loss_fraction": 0.5}],
    [LINK_ENTRY | {"start_s": 1e9, "stop_s": 1.1e9}],
    [LINK_ENTRY | {"stop_s": 1e9}],
    [LINK_ENTRY | {"start_s": -1e9}],
    [{"link": "s1->s2", "start_s": 0}],
    [LINK_ENTRY | {"stop_s": True}],
    [LINK_ENTRY | {"stop_s": "1"}],
    [{"node": "s1", "start_s": 1, "stop_s": 2}],
    [{"node": "s1", "start_s": 1, "stop_s": None}],
    [{"node": "x", "start_s": 0, "stop_s": 1}],
    [
        {
            "flapping": "s1->s2",
            "start_s": 0,
            "stop_s": 3,
            "period_s": 1,
            "down_s": 0.25,
            "kind": "blackhole",
        }
    ],
    [{"flapping": "s1->s2", "start_s": 0, "stop_s": 3, "down_s": 0.25}],
    [{"flapping": "s1->s2", "start_s": 0, "stop_s": None, "period_s": 1, "down_s": 0.2}],
    [{"flapping": "s1->s2", "start_s": 0, "stop_s": 3, "period_s": 1, "down_s": 1}],
    {"faults": [], "more": 1},
)
NODE_TIMES = ("s1@1", "s1@250ms", "nobody @2", "s1", "@1", "s1@", "s1@soon", "s1@-1", "s1@@2")
SETTINGS = (
    "bw=5",
    "bw=5 delay=10ms loss=2",
    "bw=5Mbps one-way",
    "reset",
    "reset one-way",
    "one-way",
    "",
    "delay=5",
    "delay=0",
    "loss=2%",
    "loss=101",
    "loss=-1",
    "bw=0",
    "bw=5 bw=6",
    "speed=5",
    "reset bw=5",
    "delay=99999s",
    "bw=1e-6",
    "bw=7.9e-6",
    "bw=8e-6",
    "bw=1e9",
    "bw=1.1e9",
    "loss=100",
    "delay=-1ms",
    "bw",
    "one_way bw=1",
)
TABLE = (
    "System,nodenum,Prob Started,Prob Fixed,Hardware,Network",
    "7,3,6/21/2005 10:54,6/21/2005 11:00,Interconnect Cable,",
    "7,4,6/22/2005 10:00,6/22/2005 12:00,Disk Drive,",
    "7,5,6/23/2005,,interconnect x,Network",
    "8,5,6/23/2005 10:00,6/23/2005 9:00,Interconnect,",
    "7,6,6/24/2005 10:00,6/24/2005 12:00, ,Net",
    "9,6,yesterday,6/24/2005 12:00,Interconnect,",
    "11,6",
)
EVENTS = (
    "event_id component_id node_id platform_id node_name event_type event_start_time event_stop_time event_end_reason",
    "",
    "0 0 1 3 12.007 1 100 200 3001",
    "1 0 1 3 12.007 0 200 260 8000",
    "2 0 1 3 12.007 1 260 900 3999",
    "3 0 2 3 12.008 1 100 300 4000",
    "4 0 2 3 12.007 1 900 950 2999",
    "5 0 2 3 12.007 0 960 970 1",
    "5 0 9 3 13.001 1 300 100 3000",
    "6 0 9 3 14.001 2 1 2 3000",
    "7 0 9 3 15.1",
    "8 0 9 3 16.1 1 a 2 3000",
    "9 0 9 3 17.1 0 5 5 1",
)
PARTS = (
    "Date,Hardware Identifier,What Failed,Other",
    "11/29/2003 7:00,node 13,DISK,x",
    "12/1/2003, Node 604 ,elan3,bad",
    "12/4/2003 7:00,Quadrics 1,QSW,x",
    "9/30/2007 23:59,a,QSW,x",
    "10/1/2007,b,QSW,x",
    "1/4/2008 7:00,node 1,ELAN4,later",
    "soon,x,QSW,y",
    "1/1/2004",
)


def grammar_of_faults() -> Any:
    return {
        "faults": {text: told(grammar.parse_fault, text, T1) for text in FAULTS},
        "lists": {text: told(grammar.parse_fault_list, text, T1) for text in (*LISTS, *FAULTS)},
        "links": {
            text: told(grammar.parse_link, text, T1)
            for text in ("s1->s2", "s1-s2", "s1->s2#0", "s1->s2#1", "s1", "a->b")
        },
        "no link": told(grammar.parse_link, 7, T1),
        "cables": {
            text: told(grammar.parse_cable_faults, text, TORUS, seed=4, duration_s=2.0)
            for text in CABLES
        },
        "poisson": {text: told(grammar.parse_poisson, text) for text in POISSON},
        "files": [told(grammar.parse_fault_document, one, T1, "file") for one in DOCUMENTS],
        "nodes": {text: told(grammar.parse_node_time, text, "--kill", T1) for text in NODE_TIMES},
        "none": [
            grammar.no_faults(text)
            for text in ("none", " none ", "[]", "[ ]", "[1]", "", "nothing")
        ],
        "standing": {
            words: told(grammar.standing_fault, ("s1", "s2", 0), words.split())
            for words in (
                "",
                "down",
                "loss 0.3 one-way",
                "loss",
                "blackhole 1",
                "ge:p=0.1,r=0.2 one-way",
                "ge:p=2",
                "loss x",
            )
        },
        "written": [grammar.fault_text(grammar.parse_fault(text, T1)) for text in FAULTS[:9]],
        "manners": [
            (grammar.manner_text(f), describe(f), f.partial, f.ends_s)
            for f in (grammar.parse_fault(t, T1) for t in FAULTS[:9])
        ],
        "read": [
            told(reading.read_faults, one, T1, hint="mend")
            for one in ("none", "s1->s2@1-2", ["s1->s2 loss 0.5"], [7], 7, "nowhere.json", ())
        ],
        "settings": {text: told(link_settings.parse_settings, text.split()) for text in SETTINGS},
        "set": [
            told(
                lambda words: (
                    lambda s: (
                        s.applied_to(LINK),
                        link_settings.settings_text(s.applied_to(LINK), 0.015),
                    )
                )(link_settings.parse_settings(words.split())),
                words,
            )
            for words in ("bw=5", "delay=3ms", "loss=2", "bw=2.5 delay=1us")
        ],
    }


LINK = Link(source="a", target="b", capacity_bps=1e7, delay_s=0.001)


def failures_in_time() -> Any:
    poisson = [
        fault.PoissonFaults(rate_per_s=0.3, lasts_s=0.7, lengths=lengths, kind=kind, start_s=start)
        for lengths, kind, start in (("fixed", "down", 0.8), ("exponential", "blackhole", 0.0))
    ]
    cables = [("s2", "s1", 0), ("s1", "s2", 0), ("s2", "s3", 1)]
    spans = [(0.0, 1.0), (0.5, 0.7), (1.0, 2.0), (3.0, math.inf)]
    some = [Fault(link=("s1", "s2", 0), start_s=a, stop_s=b) for a, b in spans]
    moments = fault.injection_times(some[:2], [fault.KilledProcess(node="r1", at_s=1.5)])
    return {
        "poisson": [
            told(fault.poisson_faults, cables, law, until_s=20.0, seed=5) for law in poisson
        ],
        "too many": told(
            fault.poisson_faults, cables, replace(poisson[0], most=2), until_s=20.0, seed=5
        ),
        "unavailable": [law.unavailability for law in poisson],
        "flapping": [
            told(fault.flapping_faults, cables[0], period_s=p, down_s=d, start_s=1.0, stop_s=s)
            for p, d, s in (
                (1.0, 0.3, 4.0),
                (0.3, 0.1, 1.9),
                (1, 1, 5),
                (1, 0, 5),
                (1, 0.5, 1.9),
                (1e-5, 5e-6, 9),
            )
        ],
        "nodes": [
            told(fault.node_faults, T1, node, start_s=1.0, stop_s=2.0)
            for node in ("s1", "t0", "x", 7)
        ],
        "cables": fault.cables_of([("b", "a", 0), ("a", "b", 0), ("a", "b", 1)]),
        "overlapping": [
            fault.overlapping(part) for k in range(5) for part in itertools.combinations(some, k)
        ],
        "outlasting": [f.stop_s for f in fault.outlasting(some, 9.0)],
        "moments": moments,
        "checks": [told(fault.injection_check, moments, over) for over in (0.0, 1.5, 1.6)],
        "no moments": told(fault.injection_check, (), 1.0),
        "shapes": [
            told(cable_faults.shape_walk, shape, n)
            for shape in (*cable_faults.SHAPES, "T")
            for n in (0, 1, 3)
        ],
        "of a torus": [
            told(cable_faults.shape_faults, net, shape, size=n, seed=3)
            for net in (TORUS, RING, load_network("mesh:4x4"))
            for shape in cable_faults.SHAPES
            for n in (2, 4)
        ],
        "drawn": [
            told(cable_faults.random_faults, net, n, seed=7, **more)
            for net in (TORUS, RING)
            for n in (0, 1, 3, 99, -1)
            for more in ({}, {"start_s": (0.5, 1.0), "duration_s": (0.0, 0.25)})
        ],
        "again and again": [
            told(cable_faults.intermittent_faults, TORUS, n, seed=7, duration_s=2.0) for n in (1, 3)
        ],
        "joined": [
            cable_faults.leaves_connected(RING, gone)
            for gone in ((), [("s0", "s1")], [("s1", "s0"), ("s2", "s3")])
        ],
        "switches": [cable_faults.switch_cables(net) for net in (T1, RING)],
        "refused": [
            told(cable_faults.check_faults, T1, [f])
            for f in (
                Fault(link=("s1", "s2", 0), kind="loss", loss_fraction=0.5),
                Fault(link=("s1", "s2", 0), direction="forward"),
                Fault(link=("s1", "x", 0)),
                Fault(link=("s1", "t0", 0)),
                Fault(link=("s1", "s5", 0)),
            )
        ],
    }


def traces_of_failures() -> Any:
    one = TraceStatistics(
        nodes=9,
        failures=7,
        components=4,
        span_s=1e5,
        gap_variation=0.8,
        outage_median_s=50.0,
        outage_log_deviation=2.0,
    )
    made = {name: generate_trace(known, seed=3) for name, known in KNOWN_STATISTICS.items()} | {
        "one": generate_trace(one, seed=3, name="x")
    }
    small = sample_trace()
    return {
        "known": plain(KNOWN_STATISTICS),
        "made": {
            name: (
                told(lambda t=trace: t.failures[:3] + t.failures[-2:]),
                trace.span_s,
                trace.system,
                trace.rule,
                trace.start_s,
            )
            for name, trace in made.items()
        },
        "even": {
            v: told(lambda v=v: generate_trace(replace(one, gap_variation=v), seed=1).failures[:3])
            for v in (0.05, 0.3, 1.0, 4.0, 50.0)
        },
        "no statistics": [
            told(replace, one, **more)
            for more in (
                {"span_s": 0.0},
                {"gap_variation": 0.0},
                {"components": 0},
                {"components": 8},
                {"nodes": 3},
                {"components": 7, "nodes": 7},
            )
        ],
        "lanl": {
            f"{system} {rule} {skip}": told(
                parse_lanl_table, TABLE, system, rule=rule, skip_bad_rows=skip
            )
            for system in ("7", "8", "9", "10", "11")
            for rule in LANL_RULES
            for skip in (False, True)
        },
        "fta": {
            f"{system} {skip}": told(parse_fta_events, EVENTS, system, skip_bad_rows=skip)
            for system in ("12", "13", "14", "15", "16", "17", "1")
            for skip in (False, True)
        },
        "fta as it should be": told(parse_fta_events, EVENTS[:8], "12"),
        "pnnl": [
            told(parse_pnnl_table, PARTS[:k], skip_bad_rows=skip)
            for k in (1, 2, 4, 7, 8, 9)
            for skip in (False, True)
        ],
        "other": [
            told(parse_lanl_table, lines, "7", rule=rule)
            for lines, rule in (((), "either"), (["a,b"], "either"), (TABLE, "all"))
        ],
        "on cables": [
            told(
                cable_faults.faults_from_trace,
                net,
                trace,
                simulated_s=2.0,
                seed=2,
                permanent=permanent,
            )
            for net in (TORUS, RING)
            for trace in (small, made["one"], replace(small, end_s=small.start_s))
            for permanent in (False, True)
        ],
        "without repair": told(
            cable_faults.faults_from_trace,
            load_network("torus:8x8"),
            generate_trace(replace(one, outage_median_s=None), seed=1),
            simulated_s=1.0,
            seed=2,
        ),
    }


IMPAIRMENTS = (
    "loss:0.3",
    "ge:p=0.1,r=0.3",
    "ge:p=0.1,r=0.3,1-h=0.6,1-k=0.05",
    "delay:0.01",
    "delay:0.01,jitter=0.004",
    "jitter:0.01",
    "reorder:0.25,delay=0.02",
    "duplicate:0.3",
    "loss:0.2 duplicate:0.5 jitter:0.001",
    "trace:ms=5x4+20",
    "trace:ms=1,1,1,40",
)


def impaired_packets() -> Any:
    found: dict[str, Any] = {}
    for words in IMPAIRMENTS:
        try:
            known = parse_impairments(words, None)
        except REFUSALS as error:
            found[words] = f"{type(error).__name__}: {error}"
            continue
        for seed, most, delay_s in ((1, 30280, 0.0), (2, 4000, 0.003)):
            link = impaired_link.ImpairedLink(
                known, ("a", "b", 0), seed=seed, queue_bytes=most, delay_s=delay_s
            )
            chance = random.Random(seed)
            now, times = 0.0, []
            for _ in range(60):
                now += chance.choice([0.0, 0.0005, 0.003, 0.02])
                times.append(link.offer(now, chance.choice([14, 15, 60, 1514, 4000])))
            found[f"{words} {seed}"] = (
                plain([[round(t, 9) for t in some] for some in times]),
                plain(link.counts),
            )
    found["late"] = [
        impaired_link.most_late_s(s)
        for s in (0.0, 1e-6, 0.0079, 0.008, 0.0081, 0.0199, 0.02, 0.021, 1.0)
    ]
    found["queue"] = [
        impaired_link.queue_bytes(c, mtu, p)
        for c in (1e6, 4.8e6, 4.9e6, 1e9)
        for mtu in (576, 1500)
        for p in (None, 0, 3)
    ]
    return found


COMPUTED: dict[str, Callable[[], Any]] = {
    "faults-grammar": grammar_of_faults,
    "faults-in-time": failures_in_time,
    "faults-traces": traces_of_failures,
    "faults-impaired": impaired_packets,
}
"""Name -> what is computed; its module's docstring says more."""


def rendered(parts: Iterable[Any]) -> list[str]:
    """What a terminal of 100 columns shows of tables and lines."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=100, color_system=None, legacy_windows=False)
    for part in parts:
        console.print(part)
    return out.getvalue().splitlines()
