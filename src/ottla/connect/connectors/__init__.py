"""The connectors that come with Ottla.

datagen                                   made-up records
files, file_formats                       files: source and sink
object_source, object_store               S3: source and sink
http_sink, search_sink                    HTTP servers; OpenSearch and Elasticsearch
jdbc_source, jdbc_sink, dbapi             databases with a DB-API driver
postgres, postgres_rows                   what the PostgreSQL connectors share; records as rows
postgres_source                           PostgreSQL: source by query
postgres_sink, postgres_columns           PostgreSQL: sink, one by one and in columns
postgres_cdc, postgres_stream             change data capture; reading a replication slot
pgoutput, pgoutput_columns                PostgreSQL's replication messages, one by one and in columns
debezium, debezium_columns                Debezium's events, one by one and in columns
lake, delta_sink, iceberg_sink, iceberg_source    tables of Delta Lake and Iceberg
mirror, mirror_sync                       another cluster: its records; its topics, ACLs and group offsets
"""
