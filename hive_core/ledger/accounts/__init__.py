"""Rows of accounts, of their passkeys, and of logins."""
