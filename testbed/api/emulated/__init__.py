"""The two sides of a sandbox process.

``sandbox_client`` runs in the ordinary process, ``sandbox_server`` inside the sandbox, with the
switches.
"""
