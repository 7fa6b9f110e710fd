"""Access to a running network from other processes, through its control socket.

They run programs in hosts, break links, read counters and record packets.

- ``protocol``: how a request and its answer are encoded on the socket.
- ``server``: what the process of the network does with requests.
- ``host_processes``, ``program_group``: programs in hosts, which end when their client disconnects.
- ``client``: the other end, which sends requests.
- ``exec_proxy``: a program of its own that represents a program in a host. So pipes, terminals,
  signals and exit codes are those of any local process.
- ``prompt``: Mininet's prompt over a running network.
- ``running``: the running networks of this user.
"""
