"""Who may do what.

roles       viewer, operator, admin, and which of them a principal of the cluster has
sessions    who is logged in, until when, and the token against forged requests
login       checks a name and a password with the broker
oidc        sends people to an OpenID provider, and checks who comes back
audit       a line for every change
headers     the security headers of every answer, and which hosts and origins are trusted
"""
