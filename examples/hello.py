"""Chapter 2's first program: one process writes a message into a file striped over two I/O nodes.

testbed run crossbar:4 --compute-nodes 1 --io-nodes 2 -- python examples/hello.py
"""

from sfio_emu import mclose, mopen, mwritec

file = mopen("p1/tmp/a1.dat;p2/tmp/a2.dat;", 5)
# writes in the global file 11 characters at location 0
mwritec(file, 0, b"Hello World", 11)
mclose(file)
