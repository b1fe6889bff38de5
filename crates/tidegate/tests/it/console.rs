//! The queries behind the console's pages, in both deployments; the browser tests cover the pages on the embedded one.

use hyper::Method;
use serde_json::json;
use tidegate_core::{DeliveryState, OrderId, WebhookId};

use crate::receiver::{Receiver, Reply};
use crate::support::{TestApp, bought, pay};

#[tokio::test]
async fn the_console_reads_payments_deliveries_reconciliation_and_nodes() {
    let receiver = Receiver::start(|_, _| Reply::Status(500)).await;
    let mut app =
        TestApp::builder().with("TIDEGATE__DELIVERIES__ALLOW_NETWORKS", "127.0.0.0/8").start().await;
    let body = json!({"url": receiver.url(), "events": ["order.*"]});
    let hook = app.operator.expect(201, Method::POST, "/v1/admin/webhooks", Some(&body)).await.unwrap();
    let sale = app.sale(10, 10).await;
    let mut buyer = app.buyer().await;
    let order = bought(&mut buyer, &sale, 2).await;
    assert_eq!(pay(&mut buyer, &order).await.status, 200);
    app.deliver().await;

    let id: OrderId = app.app.parse(&order).unwrap();
    let payments = app.app.ordering.payments_of(id).await.unwrap();
    assert_eq!((payments.len(), payments[0].amount.amount), (1, 19_800));

    let counts = app.app.deliveries.counts().await.unwrap();
    assert_eq!(counts.iter().map(|(state, _)| *state).collect::<Vec<_>>(), DeliveryState::ALL);
    assert_eq!(counts.iter().map(|(_, rows)| rows).sum::<u32>(), 2, "{counts:?}");
    let hook: WebhookId = app.app.parse(hook["id"].as_str().unwrap()).unwrap();
    let sent = app.app.deliveries.to_webhook(hook, 10).await.unwrap();
    assert!(sent.len() == 2 && sent[0].event > sent[1].event, "{sent:?}");
    assert_eq!(app.app.deliveries.to_webhook(hook, 1).await.unwrap().len(), 1);

    let books = app.app.auditing.books().await.unwrap();
    assert_eq!((books.len(), books[0].sum(), books[0].counters.tally.paid), (1, 10, 2), "{books:?}");

    let report = app.app.node.node_report().await.unwrap();
    assert!(report.problems.is_empty(), "{report:?}");
    let known: Vec<_> = report.known.iter().map(|node| (node.name.as_str(), node.number)).collect();
    let this = (report.node.name.as_str(), report.node.number);
    assert_eq!(known, if report.embedded { vec![] } else { vec![this] });
}
