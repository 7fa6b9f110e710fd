"""Impaired links on real switches: are bursts, copies, waits, overtaking and a trace's rate measured at the sink as
they were requested?

Nothing of this is in the four documents: it is what users of emulators (netem, Mahimahi) expect a link to do.
"""

import itertools

from testbed.faults.grammar import parse_fault_list
from testbed.model.studies.study import Results
from testbed.stream.run_in_turn import SessionStudy, Titled
from testbed.stream.workload import stream_plan
from topologies import load_network

NETWORK, SOURCE, SINK = "swiss-t1", "s1", "s6"
LINKS = ("s1->s2", "s1->s4", "s1->s8")
"""Each carries a quarter of the stream's labels, on ways of its own."""
CASES = (
    ("bursts of loss", "ge:p=0.06,r=0.2"),
    ("random loss and copies", "loss:0.1 duplicate:0.1"),
    ("jitter", "delay:0.03,jitter=0.02"),
    ("reordering", "reorder:0.25,delay=0.03"),
    ("a rate trace", "trace:ms=20x10+300"),
)


def sessions(quick: bool, seed: int) -> Titled:
    """A session a case, its link impaired for 15 seconds (quick: for 6); the stream has a fixed N, so that it answers
    nothing."""
    network, until_s, found = load_network(NETWORK), 6.8 if quick else 15.8, []
    common: Results = {
        "rate_pps": 600.0,
        "block_size": 23,
        "playback_s": 1.2,
        "duration_s": until_s + 1.7,
        "seed": seed,
    }
    for (title, words), link in zip(CASES, itertools.cycle(LINKS), strict=False):
        faults = parse_fault_list(f"{link}@0.8-{until_s} {words} one-way", network)
        found.append((title, stream_plan(network, SOURCE, SINK, faults=faults, **common)))
    return found


STUDY = SessionStudy(
    name="impairments_switches",
    title="Do impaired links on real switches do what was asked for: "
    "bursts, copies, waits, overtaking, a trace's rate?",
    deviations=(
        "Not in the documents: what netem and Mahimahi do to links, on this testbed's switches.",
        "One network, link at a time and seed; 600 source packets a second, a quarter crosses the impaired link.",
        "Without netem in the kernel a process stands in the link's way; netem's own queue was not measured.",
    ),
    does="a stream of fixed block size over Swiss-T1 with one link impaired in each of five manners",
    answers="Gilbert 1960 and Elliott 1963 on bursts; RFC 4737 on reordering; Netravali and others 2015 on rate traces",
    sessions=sessions,
)
