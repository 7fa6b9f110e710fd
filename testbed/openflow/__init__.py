"""Converts routes to OpenFlow rules, and evaluates rules without a switch; no I/O."""
