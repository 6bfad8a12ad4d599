"""Converters: bytes of topics to values of Connect, and back.

base                          what a converter is
plain                         strings, bytes, numbers, JSON
registry, registry_schemas    Avro, JSON Schema, Protobuf with a schema registry; schemas in their languages
"""
