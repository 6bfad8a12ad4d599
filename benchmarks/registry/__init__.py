"""Measurements of the schema registry."""
