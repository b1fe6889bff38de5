//! Nodes: health, load and backlog of this node, and a list of all nodes of the cluster.

use std::time::Duration;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use tidegate_app::deliveries::MAX_COUNTED;
use tidegate_app::node::NodeReport;
use tidegate_core::DeliveryState;
use tidegate_http::Site;

use crate::badge::Badge;
use crate::console::{ConsoleContext, OperatorSession};
use crate::format::{Timestamp, grouped};
use crate::i18n::phrases::nodes::NodePhrases;
use crate::page::{PageError, render};

#[derive(Template)]
#[template(path = "console/nodes.html")]
pub(crate) struct NodesPage {
    ctx: ConsoleContext,
    t: &'static NodePhrases,
    report: NodeReport,
    health: Badge,
    version: &'static str,
    uptime: String,
    next_deadline: Option<Timestamp>,
    /// Deliveries to be sent or retried.
    backlog: String,
    nodes: Vec<NodeRow>,
    at: Timestamp,
}

#[derive(Debug)]
struct NodeRow {
    name: String,
    number: u16,
    until: Timestamp,
    is_this: bool,
}

impl NodesPage {
    fn of(ctx: ConsoleContext, report: NodeReport, backlog: u32, at: Timestamp) -> Self {
        let t = NodePhrases::of(ctx.lang);
        let ready = report.problems.is_empty();
        let row = |node: &tidegate_app::ledger_types::NodeLease| NodeRow {
            is_this: node.name == report.node.name,
            name: node.name.clone(),
            number: node.number,
            until: Timestamp(node.until),
        };
        let more = if backlog >= MAX_COUNTED { "+" } else { "" };
        Self {
            health: if ready { Badge::good(t.health_ok) } else { Badge::bad(t.health_bad) },
            version: env!("CARGO_PKG_VERSION"),
            uptime: format_uptime(report.up),
            next_deadline: report.next_deadline.map(Timestamp),
            backlog: format!("{}{more}", grouped(backlog.into())),
            nodes: report.known.iter().map(row).collect(),
            report,
            at,
            t,
            ctx,
        }
    }
}

pub(crate) async fn show(State(site): State<Site>, session: OperatorSession) -> Result<Response, PageError> {
    let app = &site.app;
    let report = app.node.node_report().await?;
    let counts = app.deliveries.counts().await?;
    let is_pending = |state: &DeliveryState| matches!(state, DeliveryState::New | DeliveryState::Failed);
    let backlog = counts.iter().filter(|(state, _)| is_pending(state)).map(|(_, rows)| rows).sum();
    Ok(render(&NodesPage::of(session.ctx, report, backlog, Timestamp(app.now()))))
}

/// Hours, minutes and seconds, such as 49:02:03; needs no translation.
fn format_uptime(up: Duration) -> String {
    let seconds = up.as_secs();
    format!("{}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate_app::ledger_types::NodeLease;
    use tidegate_core::Moment;

    impl NodesPage {
        pub(crate) fn sample(ctx: ConsoleContext) -> Self {
            let at = Moment::from_millis(1_777_629_600_000);
            let report = NodeReport {
                node: tidegate_app::Node { name: "alpha".into(), number: 3 },
                embedded: false,
                up: Duration::from_secs(3723),
                unrecorded: 12,
                connections: 100,
                streams: 20,
                rebuilds: 1,
                drift: 0,
                problems: vec![("gate", "no <answer>".into())],
                next_deadline: Some(at),
                known: vec![NodeLease { name: "alpha".into(), number: 3, until: at }],
            };
            Self::of(ctx, report, 7, Timestamp(at))
        }
    }

    #[test]
    fn uptime_is_written_in_hours() {
        assert_eq!(format_uptime(Duration::from_secs(3723)), "1:02:03");
        assert_eq!(format_uptime(Duration::from_secs(49 * 3600)), "49:00:00");
    }
}
