//! Accounts: buyers with a phone number and a password.

use std::sync::Arc;

use tidegate_core::{EventKind, Moment, UserId};

use super::events::{NewEvent, append_event};
use super::rows::{id, moment, sql};
use super::sessions::{Session, insert_session};
use crate::engine::{Database, OptionalExtension, Param, params};
use crate::{Actor, LedgerError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub user: UserId,
    pub phone: String,
    pub name: String,
    /// A hash in PHC form.
    pub password: String,
    pub created_at: Moment,
}

#[derive(Clone, Debug)]
pub struct Accounts(pub(crate) Arc<Database>);

impl Accounts {
    pub async fn by_phone(&self, phone: &str) -> Result<Option<Account>, LedgerError> {
        self.find("SELECT * FROM account WHERE phone = ?", phone.to_owned()).await
    }

    pub async fn by_user(&self, user: UserId) -> Result<Option<Account>, LedgerError> {
        self.find("SELECT * FROM account WHERE user = ?", sql(user.raw())).await
    }

    async fn find(
        &self,
        query: &'static str,
        by: impl Param + Send + 'static,
    ) -> Result<Option<Account>, LedgerError> {
        self.0
            .read(move |connection| {
                let mut select = connection.prepare_cached(query)?;
                select
                    .query_row([by], |row| {
                        Ok(Account {
                            user: UserId::from_raw(id(row, "user")?),
                            phone: row.get("phone")?,
                            name: row.get("name")?,
                            password: row.get("password")?,
                            created_at: moment(row, "created_at")?,
                        })
                    })
                    .optional()
            })
            .await
    }

    /// Creates the account and its first session; `false` if the phone number has an account already.
    pub async fn create(
        &self,
        account: Account,
        token: [u8; 32],
        session: Session,
    ) -> Result<bool, LedgerError> {
        self.0
            .write(move |tx| {
                if tx.prepare_cached("SELECT 1 FROM account WHERE phone = ?")?.exists([&account.phone])? {
                    return Ok(false);
                }
                let (user, now) = (sql(account.user.raw()), account.created_at);
                tx.execute("INSERT INTO buyer VALUES (?, 'account', ?)", params![user, now.millis()])?;
                tx.execute(
                    "INSERT INTO account VALUES (?, ?, ?, ?, ?)",
                    params![user, account.phone, account.name, account.password, now.millis()],
                )?;
                insert_session(tx, &token, session)?;
                let event = NewEvent {
                    kind: EventKind::BuyersRegistered,
                    campaign: None,
                    subject: account.user.raw(),
                    detail: None,
                };
                append_event(tx, &Actor::Buyer(account.user), now, event)?;
                Ok(true)
            })
            .await
    }
}
