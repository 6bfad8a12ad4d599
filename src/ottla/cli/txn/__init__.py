"""`ottla txn`. Reading order: command, view, abort."""
