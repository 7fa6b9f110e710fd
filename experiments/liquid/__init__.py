"""Chapter 3: liquid schedules, their construction and their execution on switches."""
