"""What the connectors for PostgreSQL share.

database                     keys, connections, names, types
rows, columns                records as rows of a table, one by one and in columns
pgoutput, stream             PostgreSQL's replication messages; reading a replication slot
debezium, debezium_columns   Debezium's events, one by one and in columns
"""
