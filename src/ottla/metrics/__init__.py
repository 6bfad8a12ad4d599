"""What a broker tells about itself over HTTP: metrics for Prometheus, its health, and whether it is ready."""
