"""NAC, non-blocking adaptive cycles (Zarza 2011, section 4.2).

Theory of operation
-------------------
A deadlock is a cycle of full buffers, each of which waits for room in the next. NAC finds such a
cycle as soon as it is full, and makes room in it: next to every input buffer a there is an
avoidance buffer d of one packet. No virtual channels are needed.

*Detection* (4.2.1; ``detection.py``). After every change of a router's state each of its inputs
from other routers is examined. It is blocked if all three triggering conditions hold: the output
buffer that its head requests and the input buffer behind it are full (4.1, 4.2: together they are
the logic buffer c, known from the router's own occupancy and its credits), and the input itself is
full (4.3).

*Throttle* (4.2.1; ``throttle.py``). While an input is blocked, or a packet is in its avoidance
buffer, the router forwards no packets of its own hosts (``stop_fw``). When a move has freed a slot,
only the cycle may use it (``stop_st``).

*Identification* (4.2.2; ``identification.py``). The router of a blocked input sends an
identification packet up that input's link. A router that receives one repeats it up each of its
inputs that is blocked and requests the output where the packet arrived. If there is none, the
packet is dropped: there is congestion, but no cycle. A packet that returns to its router through
the output that its input requests has gone round a cycle of full buffers. The inputs of the cycle
are on the packet's path.

*Gradual recovery* (4.2.3; ``recovery.py``). The router moves the head of the input into the
avoidance buffer, ``move(a, d)``, and sends a recovery signal up the link: the slot that is now free
belongs to the cycle. The router that receives the signal checks conditions 4.4 to 4.7: its output
has at most that slot free, its input on the cycle requests it and is full, and the signal has
arrived. It then moves a packet, too, and passes the signal on, until it has gone round. Packets in
avoidance buffers have priority. When they have left and nothing is blocked, the throttle opens. The
recovery takes 2 n t_f on a cycle of n routers (equation 4.8).

docs/workloads/nac_decisions.md lists by number how we decided what the document leaves open
(``NacOptions``): the retry timer, since a dropped packet has no answer (8), control packets outside
all buffers (15), and others.

``tests/oracles/interconnect/nac.py`` is the same algorithm, written independently.
"""
