"""The one HTTP set-up of Ottla's services: limits, errors in JSON, access log, graceful stop.

    limits     how large, how slow and how many requests may be
    errors     what a handler raises
    routing    paths to handlers, segment by segment, so that names may hold encoded slashes
    app        reads a request within the limits, calls its handler, writes the answer and the access log
    security   TLS, users and ACLs of one server
    authentication   the user of a request: password, token, certificate
    broker_users     passwords and tokens, verified by the brokers
    login_queue      whose credentials are verified next
    broker_acls      what a user may do, by the ACLs of the brokers
    origins    refuses what pages of other sites have browsers send
    guard      connections whose request does not come, or is too large, are closed
    server     listens, serves, and stops in good order
    service    a server and what its requests need, started and stopped together: registry, Connect, console
    metrics    the answer to a scrape
    json_client      the other side: JSON requests to a service, with credentials

It stands on uvicorn, starlette and our clients, and imports nothing of the broker. Brokers serve their
metrics without it: a scrape must not cost.
"""
