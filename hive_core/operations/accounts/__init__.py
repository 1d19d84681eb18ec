"""Operations on accounts and logins: who acts as the operator on login.sock."""
