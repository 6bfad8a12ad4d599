"""Records that must name a registered schema: `confluent.{key,value}.schema.validation` of a topic.

validator          what a batch goes through before it is appended
named_records      which schemas the records of a batch name
known_schemas      which subjects a schema belongs to, asked for once and remembered
record_names       the name of a record in the text of a schema
registry_http      requests to schema registries, in threads

A topic without validation costs nothing: its batches are not looked into. See decision 160.
"""
