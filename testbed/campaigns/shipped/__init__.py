"""Descriptions of the campaigns that come with the testbed, one TOML file each."""
