//! What nodes tell each other over publish/subscribe: outcomes of claims, and that something had better be looked at.
//!
//! Messages can be lost: nothing depends on them but how soon it is known.

use std::sync::Weak;
use std::time::Duration;

use futures_util::StreamExt;
use hashbrown::HashMap;
use redis::{AsyncCommands, RedisResult};
use tidegate_core::{CampaignId, ClaimId, ItemId, Rejection};
use tokio::sync::mpsc;

use super::Shared;
use super::pending::Outcome;

const AFTER_FAILURE: Duration = Duration::from_millis(500);

/// What a node hears from the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// Something about this campaign has changed: its state, its stock, its epoch.
    Campaign(CampaignId),
    Item(ItemId),
    /// The session with this digest has ended.
    SessionEnded([u8; 32]),
    /// Messages may have been lost until now.
    Anything,
}

impl News {
    fn print(&self) -> String {
        match self {
            Self::Campaign(id) => format!("campaign {}", id.raw()),
            Self::Item(id) => format!("item {}", id.raw()),
            Self::SessionEnded(digest) => {
                digest.iter().fold("session ".to_owned(), |text, byte| text + &format!("{byte:02x}"))
            }
            Self::Anything => "anything".to_owned(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let (kind, rest) = text.split_once(' ').unwrap_or((text, ""));
        Some(match kind {
            "campaign" => Self::Campaign(CampaignId::from_raw(rest.parse().ok()?)),
            "item" => Self::Item(ItemId::from_raw(rest.parse().ok()?)),
            "session" => {
                let mut digest = [0; 32];
                for (byte, at) in digest.iter_mut().zip((0..).step_by(2)) {
                    *byte = u8::from_str_radix(rest.get(at..at + 2)?, 16).ok()?;
                }
                Self::SessionEnded(digest)
            }
            "anything" => Self::Anything,
            _ => return None,
        })
    }
}

fn for_all(prefix: &str) -> String {
    format!("{prefix}news")
}

fn for_node(prefix: &str, number: u16) -> String {
    format!("{prefix}outcomes:{number}")
}

pub(super) async fn publish(shared: &Shared, news: &News) -> RedisResult<()> {
    let channel = for_all(&shared.options.prefix);
    shared.gate.link().clone().publish(channel, news.print()).await
}

/// Tells other nodes what became of their claims: `id`, or `id:reason`, with commas.
pub(super) async fn tell_outcomes(shared: &Shared, outcomes: Vec<(u16, Outcome)>) {
    let mut by_node: HashMap<u16, Vec<String>> = HashMap::new();
    for (node, Outcome { id, rejection }) in outcomes {
        let reason = rejection.map(|why| format!(":{}", why.code())).unwrap_or_default();
        by_node.entry(node).or_default().push(format!("{}{reason}", id.raw()));
    }
    for (node, outcomes) in by_node {
        let channel = for_node(&shared.options.prefix, node);
        let told: RedisResult<()> = shared.gate.link().clone().publish(channel, outcomes.join(",")).await;
        if let Err(error) = told {
            tracing::debug!(%error, "outcomes could not be told; their node asks the ledger");
        }
    }
}

fn hear_outcomes(shared: &Shared, text: &str) {
    shared.books.pending.settle(text.split(',').filter_map(read_outcome));
}

/// A reason this version does not know is asked for.
fn read_outcome(text: &str) -> Option<Outcome> {
    let (id, reason) = text.split_once(':').map_or((text, None), |(id, why)| (id, Some(why)));
    let rejection = match reason {
        None => None,
        Some(reason) => Some(Rejection::from_code(reason)?),
    };
    Some(Outcome { id: ClaimId::from_raw(id.parse().ok()?), rejection })
}

/// Listens for as long as somebody wants to hear, on one server after the other.
pub(super) async fn listen(shared: Weak<Shared>, news: mpsc::UnboundedSender<News>) {
    for at in 0.. {
        match listen_at(at, &shared, &news).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "news is listened for again"),
        }
        tokio::time::sleep(AFTER_FAILURE).await;
    }
}

async fn listen_at(at: usize, shared: &Weak<Shared>, news: &mpsc::UnboundedSender<News>) -> RedisResult<()> {
    let Some(known) = shared.upgrade() else { return Ok(()) };
    let options = &known.options;
    let (all, ours) = (for_all(&options.prefix), for_node(&options.prefix, options.number));
    let mut listener = known.gate.link().listener(&options.urls, at).await?;
    drop(known);
    listener.subscribe(&[&all, &ours]).await?;
    if news.send(News::Anything).is_err() {
        return Ok(());
    }
    let mut messages = listener.on_message();
    while let Some(message) = messages.next().await {
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let Ok(text) = message.get_payload::<String>() else { continue };
        if message.get_channel_name() == ours {
            hear_outcomes(&shared, &text);
        } else if let Some(told) = News::parse(&text)
            && news.send(told).is_err()
        {
            return Ok(());
        }
    }
    Err((redis::ErrorKind::Io, "the server hung up").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_arrives_as_it_was_told() {
        for told in [
            News::Campaign(CampaignId::from_raw(7)),
            News::Item(ItemId::from_raw(u64::MAX >> 1)),
            News::SessionEnded(std::array::from_fn(|at| u8::try_from(at).unwrap() * 8)),
            News::Anything,
        ] {
            assert_eq!(News::parse(&told.print()), Some(told));
        }
        assert_eq!(News::parse("session 00"), None);
        assert_eq!(News::parse("weather fine"), None);
    }
}
