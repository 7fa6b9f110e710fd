"""Software routers as processes in their own namespaces, with veth cables, inside the sandbox."""
