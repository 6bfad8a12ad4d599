"""JSON Schema: loading into nodes and comparing them. Begin with `model`, `loader`, then `compatibility`."""
