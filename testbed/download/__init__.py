"""Downloads over many paths: a plan of one transfer over a last mile, and the judgement of how full it was kept."""
