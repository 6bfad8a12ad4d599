"""Connect's transforms and predicates, by Connect's names and with its config keys: record in, record out.

base              what they have in common
chain             the transforms of a connector, each with its predicate
fields, paths     transforms of fields; paths to nested fields
headers_topics    transforms of headers and topics, the filter, the predicates
types             Cast and TimestampConverter, with casts and java_dates
sql               a transform in SQL
"""
