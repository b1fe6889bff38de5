-- The embedded ledger. These constraints are the last line of defence: they hold whatever the program does.

-- The program's own settings, such as generated secrets: one value per name.

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- The last recorded journal position: committed with the rows, so that no claim is recorded twice.
CREATE TABLE intake (
    only     INTEGER PRIMARY KEY CHECK (only = 1),
    recorded INTEGER NOT NULL
) STRICT;
INSERT INTO intake VALUES (1, 0);

-- Claims that could not be recorded, with the reason, for investigation.
CREATE TABLE set_aside (
    position INTEGER PRIMARY KEY,
    claim    TEXT NOT NULL,
    why      TEXT NOT NULL,
    at       INTEGER NOT NULL
) STRICT;

-- The catalogue.
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

-- Sales and draws, with the tally of their units.
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
    -- Units by state: the dashboard reads these columns, the audit recounts them.
    awaiting       INTEGER NOT NULL DEFAULT 0 CHECK (awaiting >= 0),
    paid           INTEGER NOT NULL DEFAULT 0 CHECK (paid >= 0),
    returned       INTEGER NOT NULL DEFAULT 0,
    -- At every commit: no more active units than stock.
    CHECK (awaiting + paid <= stock)
) STRICT;
CREATE INDEX campaign_running ON campaign (ends_at) WHERE state IN ('live', 'paused');

-- At most one active order or play per slot. A row without an order is a slot withdrawn from sale.
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

-- Units that a buyer holds; never negative. A row at zero stays: the gate knows by it that the buyer has ordered
-- before.
CREATE TABLE held_by_user (
    campaign INTEGER NOT NULL,
    user     INTEGER NOT NULL,
    units    INTEGER NOT NULL CHECK (units >= 0),
    PRIMARY KEY (campaign, user)
) STRICT, WITHOUT ROWID;

-- Orders: one per claim, at most one per buyer and idempotency key.
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
-- Expiry reads only this index, from its front.
CREATE INDEX orders_due ON orders (pay_by) WHERE state = 'awaiting_payment';

-- Changes that the gate must apply, numbered without gaps per campaign and shard.
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

-- A payment is booked once per provider and reference.
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

-- At most one refund per payment.
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

-- One row per change, inserted in the transaction of the change: the event for webhooks and the audit log in one.
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

-- Everybody who may order or play.
CREATE TABLE buyer (
    id         INTEGER PRIMARY KEY,
    kind       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- Sessions by the digest of their token: read access to the ledger does not allow to act for a buyer.
CREATE TABLE session (
    token      BLOB PRIMARY KEY,
    user       INTEGER NOT NULL REFERENCES buyer (id),
    expires_at INTEGER NOT NULL,
    -- Whether each use extends it.
    slides     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Accounts: one per buyer and one per phone number.
CREATE TABLE account (
    user       INTEGER PRIMARY KEY REFERENCES buyer (id),
    phone      TEXT NOT NULL UNIQUE,
    name       TEXT NOT NULL,
    password   TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

-- One-time codes, as digests: at most one per phone number and purpose, with the attempts it has left.
CREATE TABLE code (
    phone      TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    digest     BLOB NOT NULL,
    sent_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    tries_left INTEGER NOT NULL CHECK (tries_left >= 0),
    PRIMARY KEY (phone, purpose)
) STRICT, WITHOUT ROWID;

-- Number of codes sent per day, by phone number and by IP address.
CREATE TABLE code_count (
    day   INTEGER NOT NULL,
    about TEXT NOT NULL,
    sent  INTEGER NOT NULL,
    PRIMARY KEY (day, about)
) STRICT, WITHOUT ROWID;

-- Places in waiting rooms, in the order in which they were taken: one per buyer and campaign.
CREATE TABLE place (
    number    INTEGER PRIMARY KEY AUTOINCREMENT,
    campaign  INTEGER NOT NULL,
    user      INTEGER NOT NULL,
    joined_at INTEGER NOT NULL,
    admitted  INTEGER NOT NULL,
    UNIQUE (campaign, user)
) STRICT;

-- Idempotency keys of operators' requests: a request with a key takes effect once.
CREATE TABLE remembered (
    scope       TEXT NOT NULL,
    key         BLOB NOT NULL,
    fingerprint BLOB NOT NULL,
    subject     INTEGER NOT NULL,
    note        INTEGER NOT NULL,
    at          INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
