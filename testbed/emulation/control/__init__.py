"""What acts on a running network: the OpenFlow controller's process, the rules every network needs, and injected
faults.

``controller_link`` is the caller's side of the controller, and a thread that passes port changes on;
``openflow_controller`` the process itself; ``base_rules`` installs shortest paths for the prompt; ``fault_injection``
breaks and repairs links on time.
"""
