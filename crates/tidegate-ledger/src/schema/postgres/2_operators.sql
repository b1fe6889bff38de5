-- Operators: accounts with a password and an optional second factor, console sessions, and API keys for programs.

-- Operators' accounts: one per name.

CREATE TABLE operator_account (
    id         BIGINT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    password   TEXT NOT NULL,
    role       TEXT NOT NULL,
    -- The TOTP secret in plain text: codes are computed from it.
    totp       BYTEA,
    -- The step of the last accepted code. It only increases per secret, so that a code is accepted once.
    totp_step  BIGINT NOT NULL DEFAULT 0,
    disabled   BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);

-- Console sessions by the digest of their token. The operator's role is looked up at each use, not stored here.
CREATE TABLE operator_session (
    token      BYTEA PRIMARY KEY,
    account    BIGINT REFERENCES operator_account (id),
    -- Digest of the admin key that opened the session: it ends when the key changes.
    admin_key  BYTEA,
    -- Start of the maximum lifetime, which use does not extend.
    opened_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    CHECK ((account IS NULL) <> (admin_key IS NULL))
);
CREATE INDEX operator_session_of_account ON operator_session (account) WHERE account IS NOT NULL;

-- API keys by digest.
CREATE TABLE api_key (
    id           BIGINT PRIMARY KEY,
    name         TEXT NOT NULL,
    digest       BYTEA NOT NULL UNIQUE,
    role         TEXT NOT NULL,
    created_at   BIGINT NOT NULL,
    created_by   TEXT NOT NULL,
    revoked_at   BIGINT,
    last_used_at BIGINT
);
-- The audit log names keys: no two active ones have the same name.
CREATE UNIQUE INDEX api_key_at_work ON api_key (name) WHERE revoked_at IS NULL;
