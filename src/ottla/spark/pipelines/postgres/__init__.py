"""Postgres ."""
