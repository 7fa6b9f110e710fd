"""The engine that is read: the same simulator with objects, FT-DRB and NAC included, that judges the compiled one."""
