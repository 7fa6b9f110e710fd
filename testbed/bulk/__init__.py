"""The workload ``bulk``: every sending host sends a message to every receiving host.

**The plan** (``plan``, ``planning``) lists the transfers, each with its static path, and divides
them into *time frames*. These are the frames of a liquid schedule, in which no two transfers share
a link, or rounds of the senders, which may congest. No order exceeds the traffic's *liquid
throughput* (Gabrielyan 2007, equation 3).

**Connections** are opened before the measurement: one persistent TCP connection for every pair of
hosts, so that a message needs no handshake. A message (``messages``) is a header, the payload and
its checksum.

**Circuits** reproduce wormhole routing (Gabrielyan 2007, section 3.2) on packet switches: a
transfer that sends holds every link of its path, and no other transfer uses them. A circuit is one
rule at every switch of the path (``circuit_rules``), for the TCP data of this pair of hosts. Data
without a circuit match no rule and are dropped.

**Admission.** The ``coordinator`` opens a time frame and requests from the ``arbiter`` the links of
each of its transfers, one after another along the path. A link is granted in the order of the
requests. A transfer keeps its links while it waits, as a worm does. When it holds all of them, its
circuit is installed with the next batch of changes. The message is sent when every switch has
confirmed the batch. Transfers that wait for each other in a cycle are detected when the cycle
closes. One of them then releases its links and requests them again.

**Acknowledgement** has two levels. TCP's acknowledgements take the reverse of the data's path, over
standing rules. In addition, the receiver reports every complete message. The coordinator releases
its links only if its checksum is right. With a *barrier*, the next time frame opens when every
message of this one has been reported, and the circuits of a frame are removed in one batch, unless
a transfer waits for their links. Without a barrier, each sender continues with its next message.

**Failures.** A corrupted message, or one whose connection broke, is sent again. A link failure
removes the circuits over the link. Their transfers are repeated over an alternative path, or
abandoned if there is none. If nothing arrives for a long time, or an end point dies, the run ends
with a reason.

**Packet switching** is the same run without arbiter and circuits: there are rules for all pairs,
and congestion is left to queues and TCP.

The coordinator uses neither sockets nor clocks. ``simulated`` runs it in virtual time. ``emulated``
runs it on switches, where a driver (``emulated.switchboard``) executes its decisions. ``judgement``
compares the measurements of a run (``measurements``) with the theory. Before a run, ``calibration``
measures what one path can carry on this machine.
"""
