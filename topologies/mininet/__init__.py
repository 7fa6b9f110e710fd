"""Mininet's words for nodes and links, and its topologies as node-link documents."""
