"""Writes a message from one process into a file (first program of chapter 2).

The file is striped over two I/O nodes.

testbed run crossbar:4 --compute-nodes 1 --io-nodes 2 -- python examples/hello.py
"""

from sfio_emu import mclose, mopen, mwritec

file = mopen("p1/tmp/a1.dat;p2/tmp/a2.dat;", 5)
# Write 11 characters at position 0 of the file.
mwritec(file, 0, b"Hello World", 11)
mclose(file)
