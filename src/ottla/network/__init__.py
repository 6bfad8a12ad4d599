"""The broker's sockets: listeners, connections, frames, limits and back-pressure.

Reading order:

    handler            what the network calls for each request frame
    connection         one client's connection: frames in, replies out in request order
    reply_writer       pending responses, and writing replies with sendfile
    budget             limits on requests and memory that all connections share
    connection_table   the limits on open connections, with a reserve for brokers
    server             listeners, the periodic check for idle connections, start and stop
    limits             the configured limits, and the network's counters
    peer_log           rate-limited log lines about peers

Nothing here knows what a request means. The other direction, connections that this broker opens, is wire/.
"""
