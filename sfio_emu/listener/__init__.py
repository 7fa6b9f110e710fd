"""The listener's side of the protocol, without sockets or disks: bytes in, calls on subfiles, bytes out.

Theory of operation. Each client has one `connection.ServerConnection`, and a message passes through it in three steps:

1. `reader` cuts the stream into requests. The head of a message (28 bytes) goes to memory of the connection; its length
   is compared with the limit before anything else is kept. For the rest a buffer is taken from the pool.
2. `operations` carries a request out on the subfiles, the listener's port to the disk (`ports`), and makes the answer;
   what reads and writes them is in `moves`. A request is carried out when it has arrived whole, or (corrupted,
   malformed) not at all.
3. The connection queues the answer. While an answer waits to be sent nothing more is read from that client, so that one
   client can have no more than one message and one answer in the listener.

Memory is bounded by the pool: all connections share its buffers, each holds at most one, and one that finds none free
is *starved*: its bytes stay in the kernel, TCP closes the window, and the client waits. The data of a READ are put
where its request lay.

`sieves` moves many small runs near one another by one call of the disk instead of one each.
"""
