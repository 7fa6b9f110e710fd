"""The client's side of the protocol, without sockets.

How a call passes through these modules: a call of `StripedFile` becomes requests
(`layout.requests`). `access` splits them into pieces of subfiles (`layout.piece`) for the I/O
nodes. `transfer` packs the pieces of one I/O node into messages. A `connection.Exchange` sends the
messages of a call to one host, `Settings.window` at a time, and puts the answers where they belong.
Whoever owns the sockets transfers the bytes, for all hosts at once. A message is created, and its
data gathered, only when the window has room for it, so that memory holds no more than the messages
in transit.

`session` has one link per host: its connection, the number of the next message, the open subfiles.
When a link breaks, it is discarded. The next call connects again and opens the subfiles again, so
that a call fails once and can be repeated.

Processes act together over their group (`ports.ProcessGroup`). Opening, closing and truncating
succeed in all of them or in none.
"""
