"""Converters: bytes of topics to values of Connect, and back.

base                          what a converter is
plain                         strings, bytes, numbers, JSON
header_values                 the texts of headers
registry, registry_schemas    Avro, JSON Schema, Protobuf with a schema registry; schemas in their languages
"""
