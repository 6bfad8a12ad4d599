"""Authentication and authorization of the console's users.

gate        authenticates requests
roles       viewer, operator, admin, and which of them a principal of the cluster has
sessions    sessions of logged-in users, and the token against forged requests
login       checks a name and a password with the broker
oidc, login_attempts    the OpenID Connect login; logins in progress
audit       a line for every change
"""
