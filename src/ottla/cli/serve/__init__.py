"""`ottla serve`. Reading order: command, cluster."""
