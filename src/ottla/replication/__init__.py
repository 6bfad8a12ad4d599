"""Partitions as this broker serves them: what is committed, who waits, which logs are open."""
