"""Confluent's REST API over the registry: one file for each family of paths.

requests   what requests have in common: media types, bodies, versions, pages
schemas    /schemas: by id, by GUID, lists
subjects   /subjects: versions, look-ups, deletes
settings   /config, /mode, /contexts, /compatibility, and what the server says of itself
app        the routes, `/contexts/{context}/...` before any of them, and the short way for ids
"""
