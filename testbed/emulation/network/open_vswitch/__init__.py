"""The private Open vSwitch of a sandbox: its daemons, and the bridges of a wiring as one transaction."""
