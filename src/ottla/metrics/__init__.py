"""Metrics for Prometheus, and health and readiness over HTTP.

Reading order:

    service             the HTTP endpoints /metrics, /healthz and /readyz of one broker
    http_server         a small HTTP/1.1 server on h11
    health              the responses of /healthz and /readyz
    metric              how a metric is declared; catalogue lists all of them
    jmx_metrics, exporter_metrics, own_metrics          the declarations
    view                the parts of a broker that metrics are read from
    samples             the values that one scrape collects
    broker_source, partition_source, coordinator_source where the values come from
    recent              event loop lag, and latencies of the last minutes
    remote_lag          consumer lag in partitions without a local replica
    exposition          samples -> Prometheus text
    metrics_docs        the page docs/metrics.md
"""
