"""The receiving end of a stream at the pace of the kernel's sockets: C does what is done for every packet."""
