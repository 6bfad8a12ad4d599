"""What commands share.

Reading order:

    options         -b, --profile, -X, --format; client settings of a command
    session         connect, run a command, turn errors into messages
    problems        the error message: what happened, why, what to type next
    problem_kinds   all error codes, declared once; problem_docs writes docs/problems.md
    not_authorized, start_problems      messages for authorization and start-up errors
    output, progress                    tables, JSON, progress bars
    records         records as text: templates and JSON
    offset_range, partition_choice      the values of --offset and --topic
    profiles        named clusters
    completing      shell completion of names
"""
