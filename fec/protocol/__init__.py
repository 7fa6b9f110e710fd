"""The adaptive coded stream: its wire format and both ends as state machines without a clock, a socket or a thread.

Theory of operation. The source's packets are gathered into blocks of M. A block is sent as N packets, the M source
packets at the rate of the source and N - M parity packets evenly over the next block's time, and it decodes from any M
of them (``fec.code``). Each packet carries a label, 0 to 65535, in its UDP source port: the switches send it one way or
another by its label alone, so that a link carries a fixed set of labels. Block b takes the labels of the indices
base(b) to base(b) + N(b) - 1 of an endless order of labels (``fec.redundancy.labels``), and base(b + 1) = base(b) +
N(b): every block is a window of consecutive labels. When a link fails, a known share of every window is lost.

The receiver (``receiver``) hands source packets on at once and recovered ones as soon as M symbols of a block are
there. It gives a block up when the playback buffer is over, reckoned from the sender's time stamp. Loss reports
(``loss_reporting``) go back over two paths: for each of the latest blocks one bit a symbol, so that the sender knows
the fate of every label that it sent, and the counts of each numbered path (``path_counts``). A report is due every so
many packets or milliseconds, and at once when a block cannot be repaired by what was sent of it.

The sender (``sender``) judges a packet as lost once one that was due later, each by its own path's delay, has arrived;
where packets of a path come later than planned, they are waited for as much longer (``path_deadlines``). Fates go, in
the order of sending on each path, to whoever decides N (``fec.redundancy.block_size_control``). Where no report comes
for a while, N allows for a failure that nobody tells of. Blocks that began under a smaller N than is needed now get
late parity while they can still be played. Why N suffices is said in ``fec.redundancy.block_size``; what all of it
costs a route, in ``fec.redundancy.ror``.

Who is believed (``probation``, after RFC 3550, appendix A.1). A packet that opens a block before its time, whose clock
jumps, or that is of another session is refused until eight such packets agree while the stream has been silent for the
time of one and a half blocks: a sender that was started again is followed then, forged packets are not while the stream
goes on. One that shortens the way by more than a third of the playback time counts as if it did so by that much. A
report's number is the time stamp of the newest packet, so that one ahead of the sender's clock is refused; numbers that
begin again are followed after a second. With a key (``framing``) nothing that others made is believed.

Both ends also take and make packets in the rows of an array, many at a time (``batches``), sealed in one call
(``row_seals``). Bytes are told in ``wire`` and ``loss_report``; files in large blocks, which have an acknowledgement in place of a
deadline, in ``large_blocks``.
"""
