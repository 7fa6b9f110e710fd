"""The list of commands: folder, heading and summary in ``testbed --help``, and an example."""

from typing import NamedTuple

from testbed.api.workloads import INSPECT, LISTED, REPLICATE, ROUTE, SCHEDULE, SEND, STRIPE


class Command(NamedTuple):
    """A command.

    Attributes:
        folder: The folder of ``testbed/commands`` that contains its module; "" for a workload.
        purpose: The heading of ``testbed --help``; "" for the last one.
        summary: The description in ``testbed --help``.
        example: The arguments of an example; "" for none. A workload defines its own example.
    """

    folder: str
    purpose: str
    summary: str
    example: str


_FRAMES = "schedule transfers in time frames (liquid, exact and baseline methods)"
_DEMO = "stream coded packets over three networks while links fail (takes 2 minutes)"
_HELLO = "crossbar:4 --compute-nodes 1 --io-nodes 2 -- python examples/hello.py"
# The commands, below each heading in the order of --help.
COMMANDS = {
    "demo": Command("stream", SEND, _DEMO, "--quick"),
    "route": Command(
        "routing", ROUTE, "split a flow over a network", "swiss-t1 --from s1 --to s6 --flow s2:s7"
    ),
    "ror": Command(
        "routing",
        ROUTE,
        "compare routings by the redundancy that they require",
        "swiss-t1 --from s1 --to s6 --routing capillary --routing ecmp",
    ),
    "demands": Command(
        "routing",
        ROUTE,
        "route all pairs of a network at once",
        "topohub:sndlib/abilene --routing capillary --routing optimum",
    ),
    "campaign": Command(
        "studies",
        ROUTE,
        "compute the ROR of many networks, methods and tolerances, on Dask",
        "--list",
    ),
    "schedule": Command(
        "scheduling", SCHEDULE, _FRAMES, "swiss-t1 --pattern t0:r5,t1:r6 --output schedule.json"
    ),
    "allocate": Command("scheduling", SCHEDULE, "choose the nodes of a job", "swiss-t1 --nodes 8"),
    **{
        name: Command("", workload.purpose, workload.summary, "")
        for name, workload in LISTED.items()
    },
    "run": Command("striping", STRIPE, "run a parallel program on emulated hosts", _HELLO),
    "experiment": Command(
        "studies", REPLICATE, "list, run and create studies", "run liquid_patterns --quick"
    ),
    "replicate": Command(
        "studies",
        REPLICATE,
        "run all studies, and write the book of results",
        "--quick --chapter 3",
    ),
    "report": Command(
        "studies", REPLICATE, "draw the page of a stored run again", "results/stream/RUN"
    ),
    "runs": Command("studies", REPLICATE, "list stored runs and their verdicts", ""),
    "compare": Command(
        "studies",
        REPLICATE,
        "compare stored runs of one workload",
        "results/bulk/A results/bulk/B",
    ),
    "topology": Command(
        "network", INSPECT, "list, show, draw and export networks", "show swiss-t1"
    ),
    "up": Command(
        "network",
        INSPECT,
        "build a network of real switches, and open Mininet's prompt",
        "swiss-t1 --routing capillary --from s1 --to s6",
    ),
    "exec": Command(
        "network", INSPECT, "run a program in a host of a running network", "NAME t0 -- hostname"
    ),
    "python": Command("network", INSPECT, "run a Mininet script unchanged, without root", "--mn"),
    "attach": Command(
        "network", INSPECT, "open a prompt on a running network, or list running networks", ""
    ),
    "doctor": Command(
        "network", INSPECT, "check the capabilities of this machine, and suggest remedies", ""
    ),
    "schema": Command(
        "network", "", "print the JSON Schema of the files that commands read", "network"
    ),
    "plugins": Command("network", "", "list plug-ins and run their conformance tests", "list"),
}

# Users may type a subcommand (such as list) or a synonym instead of a command.
_LISTS = "did you mean topology list, experiment list, plugins list or campaign --list?"
# The hint for each of these words.
COMMANDS_OF_COMMANDS = {
    "list": _LISTS,
    "ls": _LISTS,
    "networks": "did you mean topology list?",
    "topologies": "did you mean topology list?",
    "show": "did you mean topology show?",
    "draw": "did you mean topology draw?",
    "export": "did you mean topology export?",
    "fault": "did you mean stream --faults, or attach?",
    "ping": "did you mean exec NAME HOST -- ping?",
}
