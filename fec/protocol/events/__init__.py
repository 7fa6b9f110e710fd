"""Both ends for packets that come when they come: blocks that may be short, flows in order."""
