"""The private Open vSwitch of a sandbox: its daemons, and bridges as one database transaction."""
