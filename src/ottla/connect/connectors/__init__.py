"""The connectors that come with Ottla.

datagen                                   made-up records
files, file_formats                       files: source and sink
object_source, object_store               S3: source and sink
http_sink, search_sink                    HTTP servers; OpenSearch and Elasticsearch
jdbc_source, jdbc_sink, dbapi             databases with a DB-API driver
postgres_source, postgres_sink            PostgreSQL: source by query, and sink
postgres_cdc                              PostgreSQL: change data capture, with Debezium's events
postgresql/                               what the connectors for PostgreSQL share
lake, delta_sink, iceberg_sink, iceberg_source    tables of Delta Lake and Iceberg
mirror, mirror_sync                       another cluster: its records; its topics, ACLs and group offsets
"""
