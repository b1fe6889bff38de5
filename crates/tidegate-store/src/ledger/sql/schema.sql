-- The embedded ledger. The constraints here are the last line: whatever the rest believes, they hold.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- How far the intake is recorded: committed with the rows it speaks of, so nothing is recorded twice.
CREATE TABLE intake (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    recorded INTEGER NOT NULL
) STRICT;
INSERT INTO intake VALUES (1, 0);

-- Claims that could not be recorded, with the reason: kept for whoever looks into it.
CREATE TABLE set_aside (
    position INTEGER PRIMARY KEY,
    claim    TEXT NOT NULL,
    why      TEXT NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

CREATE TABLE item (
    id          INTEGER PRIMARY KEY,
    name        TEXT NOT NULL,
    description TEXT NOT NULL,
    price       INTEGER NOT NULL CHECK (price >= 0),
    currency    TEXT NOT NULL,
    image_url   TEXT,
    created_at  INTEGER NOT NULL,
    updated_at  INTEGER NOT NULL
) STRICT;

CREATE TABLE campaign (
    id             INTEGER PRIMARY KEY,
    item           INTEGER NOT NULL REFERENCES item (id),
    price          INTEGER NOT NULL CHECK (price >= 0),
    currency       TEXT NOT NULL,
    stock          INTEGER NOT NULL CHECK (stock >= 0),
    top            INTEGER NOT NULL CHECK (top >= stock),
    starts_at      INTEGER NOT NULL,
    ends_at        INTEGER NOT NULL CHECK (ends_at > starts_at),
    per_user_limit INTEGER NOT NULL CHECK (per_user_limit > 0),
    pay_within_s   INTEGER NOT NULL CHECK (pay_within_s > 0),
    shards         INTEGER NOT NULL,
    protect        TEXT NOT NULL,
    state          TEXT NOT NULL,
    epoch          INTEGER NOT NULL,
    opened         INTEGER NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    -- Units by what became of them: the dashboard reads these, the audit recounts them.
    awaiting       INTEGER NOT NULL DEFAULT 0 CHECK (awaiting >= 0),
    paid           INTEGER NOT NULL DEFAULT 0 CHECK (paid >= 0),
    returned       INTEGER NOT NULL DEFAULT 0,
    -- Never more active units than stock, at any commit.
    CHECK (awaiting + paid <= stock)
) STRICT;
CREATE INDEX campaign_running ON campaign (ends_at) WHERE state IN ('live', 'paused');

-- One active order per slot. A slot without an order is withdrawn from sale.
CREATE TABLE held (
    campaign INTEGER NOT NULL REFERENCES campaign (id),
    slot     INTEGER NOT NULL CHECK (slot > 0),
    order_id INTEGER,
    PRIMARY KEY (campaign, slot)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER held_slot_exists BEFORE INSERT ON held
WHEN NEW.slot > (SELECT top FROM campaign WHERE id = NEW.campaign)
BEGIN
    SELECT RAISE(ABORT, 'the slot does not exist');
END;

-- What a buyer holds. A row stays at zero: it tells the gate that the buyer has been here.
CREATE TABLE held_by_user (
    campaign INTEGER NOT NULL,
    user     INTEGER NOT NULL,
    units    INTEGER NOT NULL CHECK (units >= 0),
    PRIMARY KEY (campaign, user)
) STRICT, WITHOUT ROWID;

CREATE TABLE orders (
    id         INTEGER PRIMARY KEY,
    campaign   INTEGER NOT NULL REFERENCES campaign (id),
    user       INTEGER NOT NULL,
    slots      TEXT NOT NULL,
    price      INTEGER NOT NULL,
    currency   TEXT NOT NULL,
    state      TEXT NOT NULL,
    reason     TEXT,
    key        BLOB,
    created_at INTEGER NOT NULL,
    pay_by     INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX orders_of_user ON orders (user, id);
CREATE INDEX orders_of_campaign ON orders (campaign, id);
CREATE UNIQUE INDEX orders_by_key ON orders (user, key) WHERE key IS NOT NULL;
-- Expiry reads this from the front and nothing else.
CREATE INDEX orders_due ON orders (pay_by) WHERE state = 'awaiting_payment';

CREATE TABLE stock_log (
    campaign INTEGER NOT NULL,
    shard    INTEGER NOT NULL,
    seq      INTEGER NOT NULL CHECK (seq > 0),
    kind     TEXT NOT NULL,
    top      INTEGER,
    user     INTEGER,
    slots    TEXT NOT NULL,
    at       INTEGER NOT NULL,
    PRIMARY KEY (campaign, shard, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE payment (
    provider  TEXT NOT NULL,
    reference TEXT NOT NULL,
    order_id  INTEGER NOT NULL REFERENCES orders (id),
    amount    INTEGER NOT NULL,
    currency  TEXT NOT NULL,
    at        INTEGER NOT NULL,
    PRIMARY KEY (provider, reference)
) STRICT, WITHOUT ROWID;
CREATE INDEX payment_of_order ON payment (order_id);

-- At most one refund for a payment, by its key.
CREATE TABLE refund (
    provider  TEXT NOT NULL,
    reference TEXT NOT NULL,
    order_id  INTEGER NOT NULL,
    amount    INTEGER NOT NULL,
    currency  TEXT NOT NULL,
    reason    TEXT NOT NULL,
    at        INTEGER NOT NULL,
    done_at   INTEGER,
    PRIMARY KEY (provider, reference),
    FOREIGN KEY (provider, reference) REFERENCES payment (provider, reference)
) STRICT, WITHOUT ROWID;
CREATE INDEX refund_due ON refund (at) WHERE done_at IS NULL;
CREATE INDEX refund_of_order ON refund (order_id);

-- Every change writes one row here, in its own transaction: the event to be sent and the audit entry in one.
CREATE TABLE outbox (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    at       INTEGER NOT NULL,
    actor    TEXT NOT NULL,
    kind     TEXT NOT NULL,
    campaign INTEGER,
    subject  INTEGER NOT NULL,
    detail   TEXT
) STRICT;
CREATE INDEX outbox_of_campaign ON outbox (campaign, id);

CREATE TABLE buyer (
    id         INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Tokens are kept as digests: who reads the ledger cannot act for anybody.
CREATE TABLE session (
    token      BLOB PRIMARY KEY,
    user       INTEGER NOT NULL REFERENCES buyer (id),
    expires_at INTEGER NOT NULL,
    -- Whether using it makes it last longer.
    slides     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE account (
    user       INTEGER PRIMARY KEY REFERENCES buyer (id),
    phone      TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    password   TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- One-time codes, as digests: at most one a number and purpose, with the tries it has left.
CREATE TABLE code (
    phone      TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    digest     BLOB NOT NULL,
    sent_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    tries_left INTEGER NOT NULL CHECK (tries_left >= 0),
    PRIMARY KEY (phone, purpose)
) STRICT, WITHOUT ROWID;

-- Codes sent on a day, by number and by address.
CREATE TABLE code_count (
    day   INTEGER NOT NULL,
    about TEXT NOT NULL,
    sent  INTEGER NOT NULL,
    PRIMARY KEY (day, about)
) STRICT, WITHOUT ROWID;

-- Places in waiting rooms, in the order in which they were taken.
CREATE TABLE place (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    campaign  INTEGER NOT NULL,
    user      INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    admitted  INTEGER NOT NULL,
    UNIQUE (campaign, user)
) STRICT;

-- Idempotency keys of operators' requests.
CREATE TABLE remembered (
    scope       TEXT NOT NULL,
    key         BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    subject     INTEGER NOT NULL,
    note        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
