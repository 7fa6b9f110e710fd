"""The client's side of the protocol, without sockets: requests out, answers in, and the processes that act together.

Theory of operation. A call of `StripedFile` becomes requests (`layout.requests`), and `access` splits them over the I/O
nodes as pieces of subfiles (`layout.piece`, `layout.pieces`). `transfer` packs the pieces of one I/O node into
messages. A `connection.Exchange` sends the messages of a call to one host, `Settings.window` at a time, and puts the
answers where they belong; whoever owns the sockets moves its bytes, for all hosts at once. A message is made, and its
data gathered, only when there is room for it in the window: what is under way is all that is held in memory.

`session` keeps a link a host: its connection, the number of the next message, the open subfiles. A link that breaks is
forgotten, and the next call makes it again and opens the subfiles again, so that a call fails once and can be repeated.

Processes act together over their group (`ports.ProcessGroup`): opening, closing and truncating happen in all of them or
in none.
"""
