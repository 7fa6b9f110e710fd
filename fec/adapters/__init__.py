"""Connects ``fec`` with shared libraries, Scapy and sockets."""

import logging

# During its import, Scapy reads a list of 40,000 vendors, which is not used here. If memory is
# exhausted, it would print a traceback for each line.
logging.getLogger("scapy.loading").setLevel(logging.ERROR)
