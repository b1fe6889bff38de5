//! Unpaid orders expire once and on time, even if nodes die.

use std::time::Duration;

use hyper::Method;
use serde_json::{Value, json};
use tidegate_core::Moment;
use tidegate_rehearse::client::Client;
use tidegate_testing::eventually_within;
use tidegate_testing::servers::Redis;

use crate::world::World;

const UNITS: usize = 60;
/// Long enough to place all orders and kill two nodes before the first deadline.
const PAY_WITHIN: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread")]
async fn unpaid_orders_expire_once_and_on_time_even_if_nodes_die() {
    let redis = Redis::start(&[]);
    let mut world = World::start(&redis.url()).await;
    let sale = world.open_sale(UNITS, PAY_WITHIN).await;
    for (number, token) in world.tokens(UNITS).await.iter().enumerate() {
        let mut buyer = Client::new(&world.urls.join(","), Some(token)).unwrap().spread(number);
        let order = buyer.post(&format!("/v1/sales/{sale}/orders"), &json!({"quantity": 1})).await.unwrap();
        assert_eq!(order.status, 201, "{:?}", order.body);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Two of three nodes die before the first deadline; the remaining one expires all orders.
    for node in [0, 2] {
        world.nodes[node].take().unwrap().kill().await.unwrap();
    }
    let mut operator = Client::new(&world.urls[1], Some(crate::world::KEY)).unwrap();
    let orders = format!("/v1/admin/orders?sale_id={sale}&limit=1000");
    let ended = eventually_within(Duration::from_secs(60), "every unpaid order ends", async || {
        let page = operator.expect(200, Method::GET, &orders, None).await.unwrap();
        let mut ended: Vec<Value> = page["data"].as_array().unwrap().clone();
        ended.retain(|order| order["state"] == "expired");
        if ended.len() == UNITS { Ok(ended) } else { Err(ended.len()) }
    })
    .await;
    let path = format!("/v1/admin/events?sale_id={sale}&limit=1000");
    let events = operator.expect(200, Method::GET, &path, None).await.unwrap();
    let events = events["data"].as_array().unwrap();
    for order in &ended {
        let theirs: Vec<&Value> = events
            .iter()
            .filter(|event| event["kind"] == "order.expired" && event["subject"] == order["id"])
            .collect();
        assert_eq!(theirs.len(), 1, "each order expires once: {order}");
        let due: Moment = order["pay_by"].as_str().unwrap().parse().unwrap();
        let at: Moment = theirs[0]["at"].as_str().unwrap().parse().unwrap();
        let late = due.until(at);
        assert!(at >= due && late < Duration::from_secs(2), "{late:?} late: {order}");
    }
    let sale = operator.expect(200, Method::GET, &format!("/v1/admin/sales/{sale}"), None).await.unwrap();
    assert_eq!(
        (&sale["counters"]["available"], &sale["counters"]["returned"]),
        (&json!(UNITS), &json!(UNITS))
    );
}

/// An order that does not hold its slot, as no order should ever be.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_cannot_be_expired_does_not_stop_the_others() {
    let redis = Redis::start(&[]);
    let world = World::start(&redis.url()).await;
    let sale = world.open_sale(10, Duration::from_secs(5)).await;
    for token in &world.tokens(4).await {
        let mut buyer = Client::new(&world.urls[0], Some(token)).unwrap();
        let order = buyer.post(&format!("/v1/sales/{sale}/orders"), &json!({"quantity": 1})).await.unwrap();
        assert_eq!(order.status, 201, "{:?}", order.body);
    }
    world.sql("DELETE FROM held WHERE order_id = (SELECT min(id) FROM orders)");
    eventually_within(Duration::from_secs(20), "the others expire", async || {
        let left = world.sql("SELECT count(*) FROM orders WHERE state = 'awaiting_payment'");
        if left == "1" { Ok(()) } else { Err(left) }
    })
    .await;
}
