"""The compiled engine: packet-level virtual cut-through as functions of arrays, compiled by numba.

Theory of operation
-------------------
Packets wait in queues. The packet at the head of a queue requests the channel that it leaves by
(``channel_requests.request_channel``). An idle channel with a request is arbitrated
(``engine_steps.arbitrate``) among the heads whose reader is idle and that have a slot in a buffer
behind the channel. ACKs go first, then NAC's avoidance buffers, then round robin over the queues of
the router, or the oldest request. The chosen head is granted the channel (``grant``): channel and
reader are busy until its tail has left, its slot becomes free, and its head arrives at the next
queue after the channel's delay, while its tail follows (virtual cut-through).

Time is in whole ticks. An event has a tick, a kind and a number, and events are stored so that they
happen in that order (``kernel_events.py``, ``kernel_loop.run_events``). No order is left to chance.
One rule keeps the engines comparable: a packet that can move never waits. Whatever makes a move
possible (a channel, reader or slot that becomes free, or an arrival) has an event that arbitrates
at the same tick. The number of superfluous events does not matter, and engines may differ in it.

A run ends when no event is left (everything is delivered, or there is a deadlock), when only NAC's
timers continue (the watchdog), or when the time to drain is over.

Modules
-------
``kernel_records.py`` and ``kernel_state.py`` have the tables, ``kernel_events.py`` events and
queues, ``engine_steps.py`` cut-through, ``nac/`` deadlock avoidance, ``ft_drb_hooks.py`` FT-DRB's
packets (``testbed/interconnect/ft_drb`` makes its decisions), and ``kernel_loop.py`` the loop.
``compiled_run.py`` runs it from the inputs to the result, in segments if it takes more than a few
seconds of simulated time.

``tests/oracles/interconnect`` is the same simulator, written independently with objects. Tests
require that both have equal histories.
"""
