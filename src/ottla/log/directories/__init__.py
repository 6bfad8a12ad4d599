"""The log directories of a broker, and the logs in them.

Reading order:

    log_directory, directory_checkpoints    all logs of a directory, and their checkpoints
    flusher                                 group commit
    log_directories                         all directories of a broker
    log_copy                                moving a log between directories
"""
