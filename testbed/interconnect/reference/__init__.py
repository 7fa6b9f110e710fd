"""The engine that is held against the compiled one: plain objects, one event after another."""
