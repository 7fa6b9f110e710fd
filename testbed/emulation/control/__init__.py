"""Acts on a running network: the OpenFlow controller, the rules that all networks need, and faults.

- ``controller_link``: the caller's end of the controller, and a thread that passes on changes of
  ports.
- ``openflow_controller``: the controller's process itself.
- ``base_rules``: installs shortest paths between all hosts.
- ``fault_injection``: breaks and repairs links at given times.
"""
