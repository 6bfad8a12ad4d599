"""`ottla up`: a broker and the services around it, under one supervisor."""
