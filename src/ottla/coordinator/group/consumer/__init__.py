"""Consumer ."""
