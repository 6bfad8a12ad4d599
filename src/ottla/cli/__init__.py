"""The command line: a thin face over the client (and, for `serve`, over the broker).

    main       the `ottla` command; loads its sub-commands only when they are used
    serve      run a broker                      banner    what it says when it is ready
    topic      create, list, describe, alter, delete topics
    produce    records from lines or JSON        lines     standard input without blocking the loop
    consume    records to lines or JSON          start     where to begin: --offset and its friends
    log        look into log files
    records    how records are written as text: templates and JSON
    session    connect, run, and turn what goes wrong into words
    problems   those words: what happened, why, what to type next
    output     tables and JSON

Data goes to standard output, talk to standard error. A user's mistake is an `error:` line and a
hint, never a traceback. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.
"""
