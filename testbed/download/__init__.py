"""Downloads over many paths: a plan of one transfer over a last kilometre, and the judgement of how full it was kept."""
