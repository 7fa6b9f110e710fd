"""Reads Mininet's parameters of nodes and links, and its topologies as node-link documents."""
