"""Reads records for people.

reader        fetches batches of a topic from positions, leader by leader
positions     where to begin: newest, oldest, an offset, a time; and pages of records from there
decoding      bytes into something to read: by registry, JSON, text, gzip, hex
json_path     `$.a.b[0]`, `$..name`: finds values in JSON data, and replaces them
expression    `$.total > 100 AND key LIKE 'a%'`, compiled to a function of a message
masking       hides parts of messages
message       a record with its decoded parts, decoded when they are looked at
search        scans a topic for what an expression matches, with progress
tail          the newest records as they come, no more of them than a person can read
statistics    counts, sizes, times and keys of a whole topic
export        CSV, JSON and Parquet
"""
