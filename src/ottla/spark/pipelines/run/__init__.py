"""Running a pipeline.

Reading order:

    driver          one process that runs one pipeline, from its path to the last batch
    runner          starts flows as streaming queries, restarts them, stops them
    running_flow, progress      one running flow; its progress, from Spark's reports
    writing         the writer, the checkpoint and the trigger of a flow
    storage, state  the folders of a pipeline; its state file and lock
    sessions, shipping          the Spark session; modules for its workers
    user_errors     from Spark's exceptions to the user's line
"""
