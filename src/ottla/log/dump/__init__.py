"""Dump ."""
