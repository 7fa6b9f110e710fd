"""Network flows that all routings share: end points, min-cost flow, linear programmes, rounding."""
