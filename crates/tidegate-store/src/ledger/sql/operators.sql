-- Operators: people with a password and perhaps a second factor, keys for machines, and consoles that are signed in.

CREATE TABLE operator_account (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    password   TEXT NOT NULL,
    role       TEXT NOT NULL,
    -- The second factor's secret, as it is: codes are computed from it.
    totp       BLOB,
    -- The step of the last code that was taken. It only rises while the secret stays, so that a code is taken once.
    totp_step  INTEGER NOT NULL DEFAULT 0,
    disabled   INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

-- Consoles, by the digests of their tokens. What their operator may do is looked up with each use, and said nowhere twice.
CREATE TABLE operator_session (
    token      BLOB PRIMARY KEY,
    account    INTEGER REFERENCES operator_account (id),
    -- A digest of the admin key, where that opened it: with another key it is worth nothing.
    admin_key  BLOB,
    -- However much it is used, it ends a while after this.
    opened_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    CHECK ((account IS NULL) <> (admin_key IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX operator_session_of_account ON operator_session (account) WHERE account IS NOT NULL;

CREATE TABLE api_key (
    id           INTEGER PRIMARY KEY,
    name         TEXT NOT NULL,
    digest       BLOB NOT NULL UNIQUE,
    role         TEXT NOT NULL,
    created_at   INTEGER NOT NULL,
    created_by   TEXT NOT NULL,
    revoked_at   INTEGER,
    last_used_at INTEGER
) STRICT;
-- The audit log names a key that acts: no two that work have one name.
CREATE UNIQUE INDEX api_key_at_work ON api_key (name) WHERE revoked_at IS NULL;
