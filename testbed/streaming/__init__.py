"""A streaming session: from a network and options to a plan, and from measurements to a verdict; pure."""
