"""Where fec meets the outside: shared libraries, compiled kernels, Scapy, sockets."""
