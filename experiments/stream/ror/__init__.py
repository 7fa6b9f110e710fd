"""ROR on packets: by capillary layer and by routing method, in virtual time and on real switches.

Theory of operation. Every link of a route that does not carry everything fails in turn. From the sender's answer to the
failure's end the packets sent per source packet are counted, over the same at rest, less one: the link's term of
equation 20. Their sum is measured ROR, held against equation 23 with the block sizes of the very labels that each
failure takes (``measured_routes``). A link that carries everything makes ROR infinite: it fails too, and ROR is
measured as infinite where nothing arrives meanwhile, since no N would help.
"""

PAGE = "ror_on_packets"
"""Of docs/replication, in which its studies stand."""
