"""The fast method: classes, orbits, edge colouring, weighted ejection, compiled."""
