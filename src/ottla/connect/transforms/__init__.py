"""Connect's transforms and predicates, by Connect's names and with its config keys: record in, record out."""
