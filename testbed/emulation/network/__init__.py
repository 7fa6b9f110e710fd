"""Networks of bridges, cables and hosts inside a sandbox."""
