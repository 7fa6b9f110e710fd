"""Runs a network of real switches in this process: a link fails, packets are lost, it is repaired.

python examples/failing_link.py
"""

import testbed

with testbed.session("ring:4") as session:
    print("before:", session.ping("h0", "h1").received, "of 3 echoes")
    session.fail("s0->s1")
    print("failed:", session.ping("h0", "h1", wait_s=0.2).received, "of 3 echoes")
    session.install(testbed.route(session.network, "h0", "h1", "disjoint-2"))
    session.restore("s0->s1")
    print("mended:", session.ping("h0", "h1").received, "of 3 echoes")
    outcome = session.stream("s0", "s2", faults=["s0->s1@2-3"], duration_s=4, rate_pps=200)
    print("stream:", "passed" if outcome.passed else outcome.verdict.invalid or "failed")
