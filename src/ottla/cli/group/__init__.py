"""`ottla group`. Reading order: command, view, seek."""
