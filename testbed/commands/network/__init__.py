"""Commands about networks and the machine that carries them."""
