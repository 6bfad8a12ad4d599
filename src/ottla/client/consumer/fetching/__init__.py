"""From Fetch requests to records.

Reading order:

    partition_state   position, fetched batches and errors of one partition
    leaders           which broker to fetch a partition from
    positions         looks up the offsets to start from, and detects truncated logs
    fetcher           one Fetch in flight to each broker, as long as there is buffer space
    read_committed    leaves out the batches of aborted transactions
    record            records as applications see them, decoded by the deserializers
    collector         takes records from the partitions in turn
    arrow, rows       the same as a pyarrow table, or as what the caller makes of each record
"""
