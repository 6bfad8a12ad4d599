"""What clients ask for: one file per API, and the table that lists them."""
