"""Writes to one file from three processes, each at its own position (second program of chapter 2).

The file is striped over two I/O nodes.

testbed run crossbar:4 --compute-nodes 3 --io-nodes 2 -- python examples/greetings.py
"""

from sfio_emu import mclose, mopen, mwritec, rank

# Opening is collective.
file = mopen("p1/tmp/a.dat;p2/tmp/a.dat;", 5)
# Each process writes 8 to 14 characters at its own position.
if rank() == 0:
    mwritec(file, 0, b"Good*morning!", 13)
if rank() == 1:
    mwritec(file, 13, b"Bonjour!", 8)
if rank() == 2:
    mwritec(file, 21, b"Buona*mattina!", 14)
# Closing is collective: when it returns, all processes have written.
mclose(file)
