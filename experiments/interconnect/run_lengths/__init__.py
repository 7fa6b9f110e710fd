"""How long runs must be: until figures of one network stand still, and whether those of the studies do."""
