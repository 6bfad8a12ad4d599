"""The files that `ottla generate` writes, one module per program."""
