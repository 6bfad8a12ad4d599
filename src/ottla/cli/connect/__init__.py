"""`ottla connect`: run workers, and manage connectors."""
