"""Bytes to messages and back: frames, requests and responses, record batches, codecs, errors."""
