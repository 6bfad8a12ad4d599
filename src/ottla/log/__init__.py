"""The files of one replica, in Kafka's format: append, read, look up, flush, recover, compact, delete.

Reading order:

    disk, file_pool, storage            the file system interface; open descriptors; health of a log directory
    file_names, checkpoints, boot_id    names of files; the small text files; detecting a power failure
    batch_walk, indexes, segment,       a .log file with its indexes; lookups in it; the segments of a log
      segment_lookup, segments
    transaction_index, epoch_cache,     aborted transactions; leader epochs;
      holes                             what recovery removed between intact batches
    producers                           idempotent producers and open transactions; limits on appends
    log_config, validator, flush        the topic config of a log; validation before an append; one flush
    log, lookup, log_types              a log: append, truncate, read, search
    loading                             opening a log after a clean shutdown or a crash
    directories/                        all logs of a directory, and all directories of a broker
    retention, compaction, maintenance  deleting and compacting segments, and the background tasks
    survey                              what a stopped broker has, for `ottla cluster rebuild`
    dump                                reading the files for `ottla log dump`

Rules:

- Everything runs on the event loop and returns at once, unless its docstring says that it may run in a
  thread.
- Storage never sees a socket, and uses only the clock that it is given.
- The .log files are the source of truth. Indexes, snapshots and checkpoints may be missing, torn or wrong:
  they are checked against the log when they are used, and rebuilt from it.
- A power failure loses nothing below a log's recovery point, kill -9 loses nothing at all, and an intact
  batch is never dropped because a neighbouring one is damaged.
"""
