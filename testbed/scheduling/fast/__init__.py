"""The fast method, compiled: classes, orbits, edge colouring and weighted ejection."""
