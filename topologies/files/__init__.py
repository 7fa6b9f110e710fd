"""Networks in files: JSON node-link, GraphML, and the formats of others; read, written, and refused with a reason."""
