"""One replica's files, in Kafka's own format: append, read, look up, make durable, recover.

Reading order

    disk, file_pool, storage                the operating system behind a seam; its descriptors; its health
    names, checkpoints                      what files are called; the small text files
    sparse_index, offset_index, time_index  finding a batch by offset, by time
    batch_walk, segment_*, indexed_file,    a .log file with its indexes; all segments of a log
      segment, segments
    transaction_index, aborted_lookup       which transactions were aborted
    producer_*, open_transactions,          what else follows from the batches: producers, transactions,
      snapshots, epoch_cache                  leader epochs
    verification                            asking before a transaction's first batch is appended
    admission, roll_rule, flush             what an append must pass; when to roll; when it is durable
    log_files, log_lookup, time_search, log a log
    scan, tidy, recovery, quarantine,       a log that is opened, after a clean stop or a crash
      replay, opening
    log_directory, directory_checkpoints,   all logs of a broker; group commit
      flusher
    retention, compaction, janitor ...      what is deleted, what is kept, and who sees to it

Rules that hold throughout

- Everything runs on the loop thread and returns at once, except what says that it may run in a thread.
- The log above the disk never sees a socket, and reads no clock but the one it is given.
- The .log files are the truth. Indexes, snapshots and checkpoints can be lost, torn or wrong: they are
  checked against the log when they are used, and rebuilt from it.
- Nothing below a log's recovery point is lost by a power cut, nothing at all by kill -9, and a batch
  that is intact is never thrown away because one beside it is not.
"""
