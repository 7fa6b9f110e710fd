"""From a split route to label intervals."""
