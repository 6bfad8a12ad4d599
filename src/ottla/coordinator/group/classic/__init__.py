"""Classic ."""
