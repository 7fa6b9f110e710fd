"""Max-min-fair rates of all pairs when the routes are free as well: water filling by linear programmes, and an
independent certificate."""
