"""`ottla cluster`. Reading order: command, view, reassign, plans."""
