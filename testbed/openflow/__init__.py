"""From plans to flow rules, a flow table that evaluates them, and the controller's decisions; no I/O."""
