"""The DEK registry: keys that encrypt fields of records, encrypted by keys of a key management service.

records     the topic `_dek_registry_keys`, as Confluent's registry writes it
state       what its records add up to
decisions   what is decided about keys

The registry never sees a key in plain text: it keeps what clients have encrypted.
"""
