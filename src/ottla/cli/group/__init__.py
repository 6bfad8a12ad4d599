"""Group ."""
