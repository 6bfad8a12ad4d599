"""`ottla security`: set up TLS, users and an authorizer for development.

Reading order: command (the options and what is printed), certificates (a development CA), set_up (the files).
"""
