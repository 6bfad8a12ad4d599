"""`ottla connect`: run workers, and manage connectors.

Reading order: `command` (run a worker), `connectors` (its REST API), `scaffold` (a first connector).
"""
