"""The listener's side of the protocol, without sockets or disks."""
