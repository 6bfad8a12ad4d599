"""Confluent's REST API over the registry: one file for each family of paths.

requests   what requests have in common: media types, bodies, versions, pages
schemas    /schemas: by id, by GUID, lists
subjects   /subjects: versions, look-ups, deletes
associations, association_batches    /associations
exporters  /exporters
keys       /dek-registry
tags       .../tags, and `findTags`
views      how schemas are shown
settings   /config, /mode, /contexts, /compatibility, and what the server says of itself
access     the ACL that each path needs
forwarding requests for the elected process, beside Apache Kafka
metrics    metrics and probes
app        the routes, `/contexts/{context}/...` before any of them, and the short way for ids
"""
