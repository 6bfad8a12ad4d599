"""Protobuf schemas.

elements, tokens, parser        the model; .proto text into it
writer, option_writer           the model into .proto text
type_table, well_known          names in a file and its imports; files that need no reference
descriptors, compiler           descriptors into the model; protoc
compatibility                   compares two schemas
schema                          a parsed schema
"""
