"""The listener's side of the protocol, without sockets or disks.

Each client has one `connection.ServerConnection`. A message passes through it in three steps:

1. `reader` cuts the byte stream into requests. The header of a message goes to memory of the
   connection. Its lengths are compared with the limit before anything else is stored. The rest of
   the message goes to a buffer from the pool.
2. `operations` carries out a request on the subfiles, which are the listener's interface to the
   disk (`ports`), and creates the answer. A request is carried out when all of it has arrived.
   A corrupted or malformed request is not carried out at all.
3. The connection queues the answer. While an answer waits to be sent, nothing more is read from
   the client, so that a client has at most one message and one answer in the listener.

The pool bounds the memory. All connections share its buffers, and each has at most one. While none
is free, the bytes of a connection stay in the kernel (the connection is *starved*), TCP closes the
window, and the client waits. The data of a READ are put into the buffer of its request.

`data_sieving` transfers many small runs that are close to one another by one disk call.
"""
