"""The schema registry: Confluent's REST API over a compacted topic, in a process of its own.

    formats        pure: Avro, JSON Schema and Protobuf, parsed, printed and compared
    subjects, entities, contracts, records    pure: names, schemas, metadata and rules, records of the topic
    state          pure: the state replayed from the records
    scopes, decisions, registration, errors   pure: the records that a request appends, or its refusal
    associations, association_changes         which subjects the topics have, and changes of that
    topic, kafka_topic, schema_log            the topic: tail it, catch up, append conditionally
    elected_topic, election                   the same on Apache Kafka, which cannot append conditionally
    jobs, workers, worker_process, decoding   parsing, checking and decoding, in processes of their own
    sized_cache                               parsed schemas, kept up to a size
    service        all of it together
    state_store, keys, exporters              other state in topics: encrypted keys, exporters
    rest           Confluent's REST API
    server         one process
    serdes         serializers and deserializers for clients, commands and Spark

docs/registry-api.md lists the paths; docs/decisions/0105 says why there is no leader.
"""
