"""NAC, non-blocking adaptive cycles (Zarza 2011, section 4.2): how the compiled engine avoids deadlock without virtual
channels.

Theory of operation
------------------- A deadlock is a cycle of full buffers, each waiting for room in the next. NAC finds such a cycle
when it is full and not yet for ever, and makes room in it: every input buffer a has an avoidance buffer d of one packet
next to it.

*Detection* (4.2.1; ``detection.py``). After every change of a router's state each of its inputs from another router is
looked at. It is blocked when all three triggering conditions hold: the output buffer that its head asks for, and the
input buffer behind it, are full (4.1, 4.2: together the logic buffer c, known from own occupancy and credits), and it
is full itself (4.3).

*Throttle* (4.2.1; ``throttle.py``). As long as an input is blocked, or a packet is in its avoidance buffer, the router
forwards no packets of its own hosts (``stop_fw``); once a move has freed a slot, only the cycle may use it
(``stop_st``).

*Identification* (4.2.2; ``identification.py``). The router of a blocked input sends an identification packet up that
input's link. A router that receives one repeats it up each of its own inputs that is blocked and asks for the output
where the packet came in; where none is, the packet is dropped: congestion, but no cycle. A packet that comes back to
its router through the output that its input asks for has gone round a cycle of full buffers. Its inputs are on the
packet's path.

*Gradual recovery* (4.2.3; ``recovery.py``). The router moves the head of the input into the avoidance buffer, ``move(a,
d)``, and sends a recovery signal up the link: the slot that is now free is the cycle's. The router that receives the
signal checks conditions 4.4 to 4.7 (its output has at most that slot free, its input on the cycle asks for it and is
full, and there is the signal), moves in its turn and sends the signal on, until it has been round. Packets in avoidance
buffers go first; when they have gone, and nothing is blocked, the throttle opens. The time is 2 n t_f on a cycle of n
routers (equation 4.8).

What the document leaves open is decided by number in docs/workloads/nac.md (``NacOptions``): the retry timer,
where a dropped packet has no answer (8), control packets outside all buffers (15), and others.

``tests/oracles/interconnect/nac.py`` is the same algorithm, written apart.
"""
