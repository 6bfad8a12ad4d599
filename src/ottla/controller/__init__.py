"""The controller: elects leaders, assigns replicas, and changes the cluster's metadata.

`machine` decides. It is pure: an image and a request go in, records and results come out. `writer` does the
IO: one decision at a time, it appends the records to the metadata store, has them folded into the next
`ClusterImage`, and then returns the results. Since the image is the fold of its records, the state after a
restart never differs from what was reported.

Reading order:

    machine             the decisions, as pure functions
    events              what was decided, as log lines
    writer              appending decisions to the metadata log
    active_controller   the requests that the controller accepts
    term                what the controller does while it is elected: sessions, leader balancing
    membership          this broker's session and its candidacy
    runner              the controller for the rest of the broker, whichever broker is elected
    remote              requests to the controller on another broker
"""
