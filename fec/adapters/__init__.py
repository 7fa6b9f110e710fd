"""Where fec meets the outside: shared libraries, compiled kernels, Scapy, sockets."""

import logging

# While it is imported, Scapy reads a list of 40,000 vendors that nobody needs here. If memory is out,
# it would print a traceback for each line.
logging.getLogger("scapy.loading").setLevel(logging.ERROR)
