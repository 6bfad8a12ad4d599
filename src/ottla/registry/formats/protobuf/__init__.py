"""Protobuf schemas: `elements` is the model, `parser` reads .proto text into it, `writer` writes it again."""
