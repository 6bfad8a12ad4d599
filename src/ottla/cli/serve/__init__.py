"""Serve ."""
