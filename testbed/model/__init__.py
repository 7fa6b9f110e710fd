"""Values that rooms share: routes, label splits, schedules, traffics, wiring, verdicts, records; pure."""
