"""The engine that runs: packet-level virtual cut-through as functions of arrays, compiled by numba.

Theory of operation
------------------- Packets wait in queues; a packet at the head of one asks for the channel that it leaves by
(``engine_steps.request_channel``). When a channel is idle and somebody asks, it is arbitrated (``arbitrate``): among
the heads whose reader is idle and that have a slot in a buffer behind the channel, ACKs go first, then NAC's avoidance
buffers, then round robin over the queues of the router, or who has asked longest. The one chosen is granted
(``grant``): channel and reader are busy until its tail has left, its slot frees, and its head arrives at the next queue
after the channel's delay, while its tail follows (virtual cut-through).

Time is in whole ticks, and everything that happens is an event of a tick, a kind and a number, kept so that they come
in that order (``kernel_events.py``, ``kernel_loop.run_events``): no order is left to chance. One rule keeps the engines
comparable: what could move never waits. Whatever makes a move possible, a channel, reader or slot that frees or an
arrival, has an event that arbitrates at that very tick; how many events too many there are does not matter, and engines
may differ in it.

A run ends when no event is left (everything is delivered, or a deadlock), when NAC's timers alone go on (the watchdog),
or when the time to drain is over.

Where to find what
------------------ ``kernel_records.py``, ``kernel_state.py`` the tables · ``kernel_events.py`` events and queues ·
``engine_steps.py`` cut-through · ``nac/`` deadlock avoidance · ``ft_drb_hooks.py`` FT-DRB's packets
(``testbed/interconnect/ft_drb`` decides) · ``kernel_loop.py`` the loop · ``compiled_run.py`` a run from
its inputs to its outcome, in stretches where it takes more than some seconds of simulated time.

``tests/oracles/interconnect`` is the same simulator, written apart with objects; tests require equal histories of both.
"""
