"""Bulk transfers: every sending host sends a message to every receiving one, frame by frame, over circuits or packet
switching.

Theory of operation
------------------- **The plan** (``plan``, ``planning``) lists the transfers, each with its static path, and parts them
into *time frames*: those of a liquid schedule, in which no two transfers share a link, or rounds of the senders, which
may congest. The traffic's *liquid throughput* (Gabrielyan 2007, eq. 3) is what no order exceeds.

**Connections** stand before anything is measured: a persistent TCP connection for every pair of hosts, so that a
message costs no handshake. A message (``messages``) is a header, the payload and its checksum.

**Circuits** reproduce wormhole routing (Gabrielyan 2007, section 3.2) on packet switches: a transfer that sends holds
every link of its path, and nobody else uses them. A circuit is in the switches as one rule at every switch of the path
(``circuit_rules``), for TCP data of that pair of hosts. Data without a circuit match no rule and are dropped.

**Admission.** The ``coordinator`` opens a time frame and asks the ``arbiter`` for the links of each of its transfers,
one after another along the path. A link goes to whoever requests first; a transfer keeps the links it has while it
waits, as a worm does. When it holds them all, its circuit goes to the switches in the next batch of changes, and the
transfer is admitted: its message is sent once every switch has confirmed the batch. Transfers that wait for each other
in a circle are found when the circle closes; one of them gives its links back and asks again.

**Acknowledgement** is twofold. TCP's own acknowledgements take the reverse of the data's path, over rules that always
stand. And the receiver reports every message that is complete; the coordinator takes note if its checksum is right, and
only then gives its links to others. With a *barrier* the next time frame opens when every message of this one has been
reported, and the circuits of a frame leave the switches in one batch, unless somebody waits for their links; without
one each sender goes on to its own next message.

**What goes wrong.** A damaged message, or one whose connection broke, is sent again. A cut link takes down the circuits
over it; their transfers are repeated over an alternative path, or given up where there is none. When nothing arrives
for long, or an end point dies, the run ends and says why.

**Packet switching** is the same run without arbiter and circuits: rules for all pairs stand, and queues and TCP settle
the rest.

The coordinator knows neither sockets nor clocks. ``simulated`` runs it in virtual time; ``emulated`` runs it on
switches, where one driver (``emulated.switchboard``) carries its decisions out. What a run measured
(``measurements``) is judged (``judgement``) next to what theory says, after the machine has shown what one path can
carry (``calibration``).
"""
