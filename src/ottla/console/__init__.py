"""The web console: server-rendered pages over the admin client, in a process of its own.

    options     which clusters, where it listens, who may log in, what may be seen
    server      one console process: clusters, sampler and HTTP server, started and stopped together
    app         a request: authentication, authorization, view or action, rendered as HTML or as JSON
    table       what a view and an action are; views/ declares them all, once for pages and API
    context, render, assets     the context of a view; pages from templates; style sheets and scripts
    metrics     what Prometheus reads
    openapi, sse, problems      the API's description; server-sent events; errors as people read them
    console     what all requests share: clusters, sessions, audit log
    services/   the registry and Connect, by their REST APIs
    clusters/   a cluster as the console sees it: snapshot, health, samples of the last hours
    messages/   reads records: decoding, expressions, masking, search, tail, export
    access/     login, sessions, roles, CSRF, audit log
    views/      the pages and what they change
    templates/, static/    HTML, CSS, and JavaScript (htmx and uPlot are vendored)

It talks to brokers with `ottla.client` only, so it works with Apache Kafka as well.
"""
