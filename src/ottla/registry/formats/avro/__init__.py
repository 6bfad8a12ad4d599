"""Avro schemas: model, parser, writer and compatibility. Begin with `model`, then `parser`."""
