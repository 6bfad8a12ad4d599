"""The schema registry: schemas, their versions and their compatibility.

`formats` is its pure part: Avro, JSON Schema and Protobuf without IO.
"""
