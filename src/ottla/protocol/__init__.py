"""Kafka's wire format: frames, requests and responses, record batches, compression, errors.

Reading order:

    primitives, frames, api_keys   integers, strings and tagged fields; message headers; API numbers
    errors, types                  error codes as exceptions; kio's number types
    schema                         encoders and decoders compiled from kio's message classes
    consumer_protocol              subscriptions and assignments of classic groups
    principal_data                 the principal of a forwarded request
    schema_frame                   the schema id in front of a record
    own_messages                   APIs that Kafka does not have
    hot_path                       shared parts of the hand-written codecs
    produce_codec, fetch_codec     the broker's side of Produce and Fetch
    produce_client, fetch_client   the client's side
    records                        record batches: headers, records, compression, transaction markers
"""
