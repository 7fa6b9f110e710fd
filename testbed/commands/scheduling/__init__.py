"""Commands of schedules, and of the transfers that follow them."""
