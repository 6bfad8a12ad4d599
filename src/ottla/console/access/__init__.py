"""Authentication and authorization of the console's users.

roles       viewer, operator, admin, and which of them a principal of the cluster has
sessions    sessions of logged-in users, and the token against forged requests
login       checks a name and a password with the broker
oidc        the OpenID Connect login
audit       a line for every change
"""
