"""Studies of ROR on packets: by capillary layer and by routing method.

They run in the simulator and on real switches. Every link of a route fails in turn, unless it
carries everything. The packets per source packet are counted from the sender's answer to the end
of the failure. Their number over that in the steady state, minus 1, is the link's term of equation
20. The sum of the terms is measured ROR. It is compared with equation 23, with the block sizes of
the labels that each failure takes (``measured_routes``).

A link that carries everything makes ROR infinite. Such links fail too, and ROR is measured as
infinite if nothing arrives meanwhile, because no N would help.
"""

# The page of docs/replication that describes these studies.
PAGE = "ror_on_packets"
