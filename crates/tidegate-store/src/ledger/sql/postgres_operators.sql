-- Operators: people with a password and perhaps a second factor, keys for machines, and consoles that are signed in.

CREATE TABLE operator_account (
    id         BIGINT PRIMARY KEY,
    name       TEXT NOT NULL UNIQUE,
    password   TEXT NOT NULL,
    role       TEXT NOT NULL,
    -- The second factor's secret, as it is: codes are computed from it.
    totp       BYTEA,
    -- The step of the last code that was taken. It only rises while the secret stays, so that a code is taken once.
    totp_step  BIGINT NOT NULL DEFAULT 0,
    disabled   BIGINT NOT NULL DEFAULT 0,
    created_at BIGINT NOT NULL
);

-- Consoles, by the digests of their tokens. What their operator may do is looked up with each use, and said nowhere twice.
CREATE TABLE operator_session (
    token      BYTEA PRIMARY KEY,
    account    BIGINT REFERENCES operator_account (id),
    -- A digest of the admin key, where that opened it: with another key it is worth nothing.
    admin_key  BYTEA,
    -- However much it is used, it ends a while after this.
    opened_at  BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    CHECK ((account IS NULL) <> (admin_key IS NULL))
);
CREATE INDEX operator_session_of_account ON operator_session (account) WHERE account IS NOT NULL;

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
-- The audit log names a key that acts: no two that work have one name.
CREATE UNIQUE INDEX api_key_at_work ON api_key (name) WHERE revoked_at IS NULL;
