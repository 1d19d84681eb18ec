-- Accounts that act as the operator on login.sock. Of secrets only the SHA-256 is here, but for
-- the keys of TOTP, which both sides need.
CREATE TABLE accounts (
    name TEXT NOT NULL PRIMARY KEY,
    scopes TEXT NOT NULL,
    created REAL NOT NULL
) STRICT, WITHOUT ROWID;
-- Links of `hive web login` that nobody has used.
CREATE TABLE login_links (
    digest TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL,
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE logins (
    id TEXT NOT NULL PRIMARY KEY,
    digest TEXT NOT NULL UNIQUE,
    account TEXT NOT NULL,
    name TEXT NOT NULL,
    via TEXT NOT NULL,
    scopes TEXT NOT NULL,
    opened REAL NOT NULL,
    used REAL NOT NULL,
    expires REAL NOT NULL,
    idle REAL NOT NULL,
    confirmed REAL NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;
CREATE TABLE passkeys (
    id TEXT NOT NULL PRIMARY KEY,
    account TEXT NOT NULL,
    rp_id TEXT NOT NULL,
    name TEXT NOT NULL,
    public_key BLOB NOT NULL,
    counter INTEGER NOT NULL,
    created REAL NOT NULL
) STRICT, WITHOUT ROWID;
-- `step` is that of the last code that was accepted: no code counts twice.
CREATE TABLE totp_keys (
    account TEXT NOT NULL PRIMARY KEY,
    secret BLOB NOT NULL,
    step INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- Confirmations that were begun, and those that no call has taken yet (`method` is not empty).
CREATE TABLE confirmations (
    nonce TEXT NOT NULL PRIMARY KEY,
    login TEXT NOT NULL,
    operation TEXT NOT NULL,
    level TEXT NOT NULL,
    request TEXT NOT NULL,
    challenge BLOB NOT NULL,
    origin TEXT NOT NULL,
    method TEXT NOT NULL DEFAULT '',
    expires REAL NOT NULL
) STRICT, WITHOUT ROWID;
