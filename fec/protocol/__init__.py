"""The adaptive coded stream: its packet format, and both ends as state machines.

The state machines have no clock, socket or thread.

Theory of operation. The packets of the source form blocks of M packets. N packets of a block are
sent: the M source packets at the rate of the source, and then N - M parity packets evenly over the
time of the next block. The block can be decoded from any M of them (``fec.code``). Each packet has
a label from 0 to 65535, which is its UDP source port. The switches forward a packet by its label
alone, so that a link carries a fixed set of labels. There is an endless order of labels
(``fec.redundancy.labels``). Block b uses the labels at the positions base(b) to
base(b) + N(b) - 1, where base(b + 1) = base(b) + N(b). Every block is therefore a window of
consecutive labels, and a link failure loses a known share of every window.

The receiver (``receiver``) delivers source packets when they arrive, and recovered ones as soon as
M symbols of their block have arrived. It closes a block at the end of the playback buffer, which
begins at the sender's time stamp. It sends loss reports (``loss_reporting``) over two paths. A
report has one bit for each symbol of the latest blocks, so that the sender knows which labels were
lost, and the counts of each numbered path (``path_counts``). A report is due after a number of
packets or milliseconds, and at once if the packets that were sent of a block cannot repair it.

The sender (``sender``) considers a packet lost when a packet that was due later has arrived. The
delays of their paths say which packet was due later. If the packets of a path arrive later than
planned, the sender waits for them longer (``path_deadlines``). It passes the result of each packet,
in the order of sending on each path, to the control that decides N
(``fec.redundancy.block_size_control``). If no report arrives for a while, N allows for a failure
that cuts off the reports. Blocks that began with a smaller N than is now required get late parity
while they can still be played. ``fec.redundancy.block_size`` explains why N suffices, and
``fec.redundancy.ror`` how much redundancy a route requires.

Accepted packets (``probation``, as in RFC 3550, appendix A.1). The receiver rejects a packet that
opens a block before its time, whose clock jumps, or that is of another session. It accepts such
packets when eight of them agree and the stream has been silent for the time of one and a half
blocks. This accepts a sender that has restarted, but no forged packets while the stream continues.
A single packet can shorten the transit time by a third of the playback buffer at most. The number
of a report is the time stamp of the newest packet, so the sender rejects a report that is ahead of
its clock. It accepts numbers that begin again after one second. With a key (``framing``), only
packets and reports with its seal are accepted.

Both ends can also process many packets at a time, in the rows of an array (``batches``), which are
sealed in one call (``row_seals``). ``wire`` and ``loss_report`` define the formats.
``large_blocks`` transfers files in large blocks, which are acknowledged and have no deadline.
"""
