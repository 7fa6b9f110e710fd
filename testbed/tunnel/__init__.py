"""A tunnel for any program: IP packets into coded packets over a split route, both ways; what programs make of it."""
