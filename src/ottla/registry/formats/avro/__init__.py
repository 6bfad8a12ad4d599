"""Avro schemas. Reading order: `model`, `parser`, `defaults`, `writer`, `compatibility`, `schema`."""
