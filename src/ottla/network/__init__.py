"""The broker's sockets: listeners, connections, frames, limits and back-pressure.

Reading order:

    handler            what the network calls for each request frame
    connection         one client's connection: frames in, replies out in request order
    reply_writer       pending responses, and writing replies with sendfile
    budget             limits on requests and memory that all connections share
    listener_security  what a listener asks of its clients: TLS, certificates, SASL
    handshake_queue    accepted TLS connections whose handshake has not begun
    tls_listener       accepts on TLS listeners, and does a limited number of handshakes at a time
    connection_table   the limits on open connections, with a reserve for brokers
    server             listeners, the periodic check for idle connections, start and stop
    limits             the configured limits, and the network's counters
    peer_log           rate-limited log lines about peers

Nothing here knows what a request means.
"""
