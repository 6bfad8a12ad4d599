"""PostgreSQL tables in pipelines: `read` in parallel, `write` idempotently."""
