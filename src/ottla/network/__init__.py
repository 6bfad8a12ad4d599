"""Sockets to frames: listeners, connections, limits and back-pressure.

In reading order: `handler` (what takes a frame and gives a reply), `connection` (one client's requests
in, replies out in order) with its parts `frame_reader`, `unanswered` and `reply_writer`, `budget` (what
all clients together may hold), `server` (listeners, limits, the sweep, start and stop); and the small
ones: `limits`, `listener`, `patience`, `peer_log`, `stats`. Nothing here knows what a request means.
"""
