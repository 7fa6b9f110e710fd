"""Simulates a coded stream over Swiss-T1 while three links fail, as ``testbed stream ... --json``.

python examples/one_stream.py
"""

import json

import testbed

network = testbed.network("swiss-t1")
plan = testbed.stream_plan(network, "s1", "s6", method="capillary", faults=testbed.EachLink(most=3))
outcome = testbed.run(plan, fabric="simulator")
print(json.dumps(outcome.document))
