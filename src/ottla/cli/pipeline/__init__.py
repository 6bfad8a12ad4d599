"""Pipeline ."""
