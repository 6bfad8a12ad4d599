"""Connect's data model: records, schemas, and values as plain Python objects."""
