"""Chapter 4: capillary routing and the redundancy that routes call for, computed."""
