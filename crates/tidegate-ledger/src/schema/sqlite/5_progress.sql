-- How far this ledger has come, to be compared with what its journal has seen of it.

-- Committed changes other than recorded claims, counted in their own transactions.
ALTER TABLE intake ADD COLUMN changes INTEGER NOT NULL DEFAULT 0;
-- Whether it has a journal: one that is missing then is a loss, not a first start.
ALTER TABLE intake ADD COLUMN has_journal INTEGER NOT NULL DEFAULT 0;
