"""Cluster ."""
