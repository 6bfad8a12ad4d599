"""Connect: source and sink connectors that run as Spark streaming queries behind Kafka Connect's REST API.

Reading order:

    sdk             what a connector is: source or sink, its config keys, its tasks
    server, options     one worker: HTTP server, herder and engine; its options
    herder/         follows Connect's topics, and decides what this worker runs
    group/          the group of workers
    engine/         the process with a Spark session that runs the tasks
    rest/           Connect's REST API
    data/           records, schemas and values
    converters/     bytes of topics to values, and back
    transforms/     transforms and predicates
    config/         config keys, validation, providers, secrets
    connectors/     the connectors that come with Ottla
    plugins         finds connectors, converters and transforms
    errors, testing     errors of Connect; the test kit for connectors
    connector_docs      docs/connectors.md
"""
