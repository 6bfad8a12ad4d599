"""`ottla registry`: run a schema registry, and look at or change its schemas.

Reading order: `command` (the options), `schemas`, `settings` (compatibility levels and modes), `copy` (export
and import), `exporters`, `client` (requests to a registry).
"""
