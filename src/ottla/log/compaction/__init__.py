"""Cleaner ."""
