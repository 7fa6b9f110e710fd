"""The two ends of a session: ``owner`` in the ordinary process, ``holder`` inside the sandbox, where the switches
are."""
