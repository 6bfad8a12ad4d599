"""The handlers of Kafka's APIs: one file per API, registered in one table.

Reading order:

    table           one row per API and range of versions: which function serves it
    dispatcher      frame -> route -> handler -> frame; errors become responses here
    schema_validation/   records that must name a registered schema
    support/        what several handlers share; start with support/context.py
    produce, fetch  the two APIs that carry records; they read and write bytes themselves
    metadata, list_offsets, create_topics, ...   every other file is one API, named as Kafka names it

The first line of each file says what its API is for, and the page docs/apis.md is made of these lines.
"""
