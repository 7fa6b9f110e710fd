"""Software routers as processes in namespaces of their own, joined by veth cables, inside the sandbox."""
