"""Membership ."""
