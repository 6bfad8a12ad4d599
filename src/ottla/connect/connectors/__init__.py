"""The connectors that come with Ottla, one module per system."""
