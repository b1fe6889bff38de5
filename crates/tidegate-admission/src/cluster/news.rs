//! Messages between nodes over Redis publish/subscribe: changes to look at, and outcomes of claims.
//!
//! Messages can be lost. They only make things known sooner; every node also polls.
//!
//! | channel | message |
//! |---|---|
//! | `{prefix}news` | one `News`: `campaign <id>`, `item <id>`, `session <digest>`, `anything` |
//! | `{prefix}outcomes:<node number>` | outcomes of that node's claims: `id`, or `id:rejection`, separated by commas |

use std::sync::Weak;
use std::time::Duration;

use futures_util::StreamExt;
use hashbrown::HashMap;
use redis::{AsyncCommands, ErrorKind, RedisResult, Value};
use tidegate_core::{CampaignId, ClaimId, ItemId, Rejection};
use tokio::sync::mpsc;

use super::Shared;
use super::pending::ClaimOutcome;

const RETRY_DELAY: Duration = Duration::from_millis(500);
/// A subscription without messages for this long is asked whether it is alive, and given up if it does not answer in
/// the same time.
const PING_AFTER: Duration = Duration::from_secs(1);

/// What nodes announce to all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum News {
    /// A campaign has changed: its state, its stock, its epoch.
    Campaign(CampaignId),
    Item(ItemId),
    /// The session with this digest has ended.
    SessionEnded([u8; 32]),
    /// The subscription is new: earlier messages may have been missed.
    MissedMessages,
}

impl News {
    fn encode(&self) -> String {
        match self {
            Self::Campaign(id) => format!("campaign {}", id.raw()),
            Self::Item(id) => format!("item {}", id.raw()),
            Self::SessionEnded(digest) => {
                digest.iter().fold("session ".to_owned(), |text, byte| text + &format!("{byte:02x}"))
            }
            Self::MissedMessages => "anything".to_owned(),
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
            "anything" => Self::MissedMessages,
            _ => return None,
        })
    }
}

fn news_channel(prefix: &str) -> String {
    format!("{prefix}news")
}

fn outcomes_channel(prefix: &str, number: u16) -> String {
    format!("{prefix}outcomes:{number}")
}

pub(super) async fn publish(shared: &Shared, news: &News) -> RedisResult<()> {
    let channel = news_channel(&shared.options.prefix);
    shared.gate.link().clone().publish(channel, news.encode()).await
}

/// Sends other nodes the outcomes of their claims, each with the number of its node.
pub(super) async fn publish_outcomes(shared: &Shared, outcomes: Vec<(u16, ClaimOutcome)>) {
    let mut by_node: HashMap<u16, Vec<String>> = HashMap::new();
    for (node, ClaimOutcome { id, rejection }) in outcomes {
        let reason = rejection.map(|reason| format!(":{}", reason.code())).unwrap_or_default();
        by_node.entry(node).or_default().push(format!("{}{reason}", id.raw()));
    }
    for (node, outcomes) in by_node {
        let channel = outcomes_channel(&shared.options.prefix, node);
        let sent: RedisResult<()> = shared.gate.link().clone().publish(channel, outcomes.join(",")).await;
        if let Err(error) = sent {
            tracing::debug!(%error, "outcomes could not be published; their node looks them up in the ledger");
        }
    }
}

/// `None` for a rejection that this version does not know: the outcome is then looked up in the ledger.
fn parse_outcome(text: &str) -> Option<ClaimOutcome> {
    let (id, reason) = text.split_once(':').map_or((text, None), |(id, reason)| (id, Some(reason)));
    let rejection = match reason {
        None => None,
        Some(reason) => Some(Rejection::from_code(reason)?),
    };
    Some(ClaimOutcome { id: ClaimId::from_raw(id.parse().ok()?), rejection })
}

/// Subscribes until the cluster or the receiver is dropped; after a failure on the next server.
pub(super) async fn listen(shared: Weak<Shared>, news: mpsc::UnboundedSender<News>) {
    for attempt in 0.. {
        match subscribe(attempt, &shared, &news).await {
            Ok(()) => return,
            Err(error) => tracing::debug!(%error, "the subscription failed and is renewed"),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

async fn subscribe(
    attempt: usize,
    shared: &Weak<Shared>,
    news: &mpsc::UnboundedSender<News>,
) -> RedisResult<()> {
    let Some(current) = shared.upgrade() else { return Ok(()) };
    let options = &current.options;
    let (all, ours) = (news_channel(&options.prefix), outcomes_channel(&options.prefix, options.number));
    let mut subscription = current.gate.link().pubsub(&options.urls, attempt).await?;
    drop(current);
    subscription.subscribe(&[&all, &ours]).await?;
    if news.send(News::MissedMessages).is_err() {
        return Ok(());
    }
    let (mut sink, mut messages) = subscription.split();
    loop {
        let message = match tokio::time::timeout(PING_AFTER, messages.next()).await {
            Ok(Some(message)) => message,
            Ok(None) => return Err((ErrorKind::Io, "the server closed the subscription").into()),
            Err(_) => {
                let answer = tokio::time::timeout(PING_AFTER, sink.ping::<Value>()).await;
                answer.unwrap_or_else(|_| Err((ErrorKind::Io, "the subscription fell silent").into()))?;
                continue;
            }
        };
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let Ok(text) = message.get_payload::<String>() else { continue };
        if message.get_channel_name() == ours {
            shared.claims.pending.settle(text.split(',').filter_map(parse_outcome));
        } else if let Some(announced) = News::parse(&text)
            && news.send(announced).is_err()
        {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn news_is_decoded_as_it_was_encoded() {
        for news in [
            News::Campaign(CampaignId::from_raw(7)),
            News::Item(ItemId::from_raw(u64::MAX >> 1)),
            News::SessionEnded(std::array::from_fn(|at| u8::try_from(at).unwrap() * 8)),
            News::MissedMessages,
        ] {
            assert_eq!(News::parse(&news.encode()), Some(news));
        }
        assert_eq!(News::parse("session 00"), None);
        assert_eq!(News::parse("weather fine"), None);
    }
}
