"""The one platform of real switches: sandbox, network, control, machine."""
