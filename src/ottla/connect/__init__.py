"""Connect: source and sink connectors that run as Spark streaming queries behind Kafka Connect's REST API."""
