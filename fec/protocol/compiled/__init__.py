"""The ends of a stream at the pace of the kernel's sockets: what is done for every packet is compiled."""
