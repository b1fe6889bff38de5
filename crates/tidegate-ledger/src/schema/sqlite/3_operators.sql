-- Operators: accounts with a password and an optional second factor, console sessions, and API keys for programs.

-- Operators' accounts: one per name.

CREATE TABLE operator_account (
    id         INTEGER PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    password   TEXT NOT NULL,
    role       TEXT NOT NULL,
    -- The TOTP secret in plain text: codes are computed from it.
    totp       BLOB,
    -- The step of the last accepted code. It only increases per secret, so that a code is accepted once.
    totp_step  INTEGER NOT NULL DEFAULT 0,
    disabled   INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL
) STRICT;

-- Console sessions by the digest of their token. The operator's role is looked up at each use, not stored here.
CREATE TABLE operator_session (
    token      BLOB PRIMARY KEY,
    account    INTEGER REFERENCES operator_account (id),
    -- Digest of the admin key that opened the session: it ends when the key changes.
    admin_key  BLOB,
    -- Start of the maximum lifetime, which use does not extend.
    opened_at  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    CHECK ((account IS NULL) <> (admin_key IS NULL))
) STRICT, WITHOUT ROWID;
CREATE INDEX operator_session_of_account ON operator_session (account) WHERE account IS NOT NULL;

-- API keys by digest.
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
-- The audit log names keys: no two active ones have the same name.
CREATE UNIQUE INDEX api_key_at_work ON api_key (name) WHERE revoked_at IS NULL;
