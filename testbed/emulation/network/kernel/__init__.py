"""What the network asks of the kernel: interfaces and queues by rtnetlink, hosts as namespaces, packets as they
pass."""
