"""From plans to flow rules, and a flow table that evaluates them; no I/O."""
