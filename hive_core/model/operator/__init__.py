"""Values of the operator's side: accounts, their scopes, and logins."""
