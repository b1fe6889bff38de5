//! This node and the others: what they are, how they are, what they have to do.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_core::DeliveryState;

use super::phrases;
use super::words::{Word, word};
use crate::http::Site;
use crate::http::console::{AtDesk, Desk, shown};
use crate::http::pages::Trouble;
use crate::http::pages::format::{When, grouped};
use crate::http::pages::phrases::office::Office;
use crate::ops::deliveries::COUNTED;
use crate::ops::nodes::NodeReport;

#[derive(Template)]
#[template(path = "console/nodes.html")]
pub(super) struct NodesPage {
    desk: Desk,
    o: &'static Office,
    report: NodeReport,
    health: Word,
    version: &'static str,
    up: String,
    next_deadline: Option<When>,
    /// Deliveries that are due or failing.
    backlog: String,
    nodes: Vec<Other>,
    at: When,
}

#[derive(Debug)]
struct Other {
    name: String,
    number: u16,
    until: When,
    is_this: bool,
}

impl NodesPage {
    fn of(desk: Desk, report: NodeReport, backlog: u32, at: When) -> Self {
        let o = phrases(&desk);
        let ready = report.problems.is_empty();
        let other = |node: &tidegate_store::ledger::sql::KnownNode| Other {
            is_this: node.name == report.node.name,
            name: node.name.clone(),
            number: node.number,
            until: When(node.until),
        };
        let more = if backlog >= COUNTED { "+" } else { "" };
        Self {
            health: if ready { word(o.health_ok, "good") } else { word(o.health_bad, "bad") },
            version: env!("CARGO_PKG_VERSION"),
            up: span(report.up),
            next_deadline: report.next_deadline.map(When),
            backlog: format!("{}{more}", grouped(backlog.into())),
            nodes: report.known.iter().map(other).collect(),
            report,
            at,
            o,
            desk,
        }
    }
}

pub(super) async fn show(State(site): State<Site>, at: AtDesk) -> Result<Response, Trouble> {
    let app = &site.app;
    let report = app.node_report().await?;
    let counts = app.delivery_counts().await?;
    let to_send = |state: &DeliveryState| matches!(state, DeliveryState::New | DeliveryState::Failed);
    let backlog = counts.iter().filter(|(state, _)| to_send(state)).map(|(_, rows)| rows).sum();
    Ok(shown(&NodesPage::of(at.desk, report, backlog, When(app.now()))))
}

/// 49:02:03, in hours: an operator reads days from it, and it is the same in every language.
fn span(up: Duration) -> String {
    let seconds = up.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_core::Moment;
    use tidegate_store::ledger::sql::KnownNode;

    impl NodesPage {
        pub(in super::super) fn sample(desk: Desk) -> Self {
            let at = Moment::from_millis(1_777_629_600_000);
            let report = NodeReport {
                node: crate::ops::Node { name: "alpha".into(), number: 3 },
                embedded: false,
                up: Duration::from_secs(3723),
                unrecorded: 12,
                connections: 100,
                streams: 20,
                rebuilds: 1,
                drift: 0,
                problems: vec![("gate", "no <answer>".into())],
                next_deadline: Some(at),
                known: vec![KnownNode { name: "alpha".into(), number: 3, until: at }],
            };
            Self::of(desk, report, 7, When(at))
        }
    }

    #[test]
    fn how_long_it_runs_is_said_in_hours() {
        assert_eq!(span(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(span(Duration::from_secs(49 * 3600)), "49:00:00");
    }
}
