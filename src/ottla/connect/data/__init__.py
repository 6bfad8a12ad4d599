"""Connect's data model.

schema          schemas, with Connect's names of types
record          a record on its way from a source or to a sink
json_form       values and schemas as JSON, in the form of Connect's JSON converter
json_codec      the same with functions that are made once for each schema
json_columns    the same for whole columns
"""
