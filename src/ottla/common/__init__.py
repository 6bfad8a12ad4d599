"""Code that every layer needs: time, ids, units, names, configuration. Imports nothing else of Ottla.

The clock and the ids are the only sources of time and randomness, so that a simulation can replace them.

Reading order:

    clock, ids, units     time, random ids and TopicPartition, named sizes and durations
    config                all options: brokers, topics, groups, clients, Spark
    listeners             NAME://HOST:PORT, parsed and checked
    topic_names           legal, internal and colliding topic names
    near_names            suggestions for misspelt names
    placement             where replicas and leaders should be
    lag                   the definition of consumer lag
    file_range            a range of a file, sent without copying
    log_format            log lines as text or JSON
    log_limit             the limit of repeated log lines
    yielding              long work in slices, so that it does not block the event loop
    tasks, backoff        ending a background task; pauses after failures
    tls, tls_stores, jks  TLS contexts from Kafka's `ssl.*` keys; keystores and truststores
    java, processes       finding Java; processes that end with their parent
    lazy_exports          packages that import their names on first use
"""
