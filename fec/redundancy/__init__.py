"""How many packets a block needs: block sizes, ROR, label orders, adaptation to losses."""
