"""Studies of the interconnect's routing on real switches."""
