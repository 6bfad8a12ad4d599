"""What the connectors for PostgreSQL share.

database                     keys, connections, names, types
rows                         records as rows of a table
pgoutput, stream             PostgreSQL's replication messages; reading a replication slot
debezium, debezium_columns   Debezium's events, one by one and in columns
"""
