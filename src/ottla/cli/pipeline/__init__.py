"""`ottla pipeline`. Reading order: command, options, run, view, status, check, copy."""
