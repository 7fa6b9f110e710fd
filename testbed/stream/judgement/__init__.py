"""From packet logs to a verdict; pure."""
