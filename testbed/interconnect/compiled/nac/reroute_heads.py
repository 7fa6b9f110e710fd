"""Heads that go on asking for a detour when a cable fails or works again: with ``ask_anew`` they ask for their shortest
path.

Numbers in brackets are the decisions listed in docs/workloads/interconnect.md.
"""

from __future__ import annotations

from testbed.interconnect.compiled.channel_requests import request_channel, withdraw_request
from testbed.interconnect.compiled.kernel_events import wake
from testbed.interconnect.compiled.kernel_records import DATA
from testbed.interconnect.compiled.kernel_state import Hook, State, Tables
from testbed.interconnect.compiled.nac.detection import requested_output
from testbed.interconnect.compiled.nac.recovery import avoidance_packet_requests
from testbed.interconnect.engine_inputs import EngineOptions

DIRECT = 2
"""The header of a packet that is bound for its destination, past its intermediates."""


def reroute_all_heads(net: Tables, o: EngineOptions, s: State, hook: Hook, now: int) -> None:
    """Escaped messages at the heads of inputs leave out what is left of their escape paths; slots kept for them
    elsewhere are free (23)."""
    for link in range(net.links):
        queue = link * net.lanes
        if s.queues[queue].router < 0 or s.queues[queue].want < 0:
            continue
        head = s.packets[s.queues[queue].head]
        if head.kind == DATA and head.escapes > 0 and head.header < DIRECT:
            withdraw_request(net, s, queue)
            head.header = DIRECT
            request_channel(net, o, s, hook, queue, now)
            wake(s, s.queues[queue].want, now)
    for out in range(net.links):
        holder = s.links[out].reserved_for
        if s.links[out].reserved == 0 or holder < 0:
            continue
        if requested_output(net, s, holder) != out and not avoidance_packet_requests(net, s, holder, out):
            s.links[out].reserved = 0
            wake(s, out, now)
            wake(s, net.link[out].entry, now)
