//! The pages over plain HTTP: access, forms, security headers, languages.

use hyper::{Method, Request};
use serde_json::json;
use tidegate_rehearse::client::{Answer, Client};

use crate::support::{TestApp, refused};

/// A browser with a session cookie that submits forms from our own pages.
struct Visitor {
    client: Client,
    cookie: String,
}

impl Visitor {
    async fn signed_in(app: &mut TestApp) -> Self {
        let minted = app.operator.post("/v1/admin/tokens", &json!({"count": 1})).await.unwrap().json();
        let token = minted["tokens"][0].as_str().unwrap();
        Self { client: Client::new(&app.url, None).unwrap(), cookie: format!("__Host-session={token}") }
    }

    async fn ask(&mut self, method: Method, path: &str, headers: &[(&str, &str)], form: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header("host", "shop");
        request = request.header("cookie", &self.cookie).header("accept", "text/html,*/*;q=0.8");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = http_body_util::Full::new(form.to_owned().into());
        self.client.exchange(request.body(body).unwrap()).await.unwrap()
    }

    async fn look(&mut self, path: &str) -> Answer {
        self.ask(Method::GET, path, &[], "").await
    }

    /// Submits a form with a same-origin `Origin` header.
    async fn send(&mut self, path: &str, form: &str) -> Answer {
        self.ask(Method::POST, path, &[("origin", "https://shop")], form).await
    }
}

fn text(answer: &Answer) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

fn location(answer: &Answer) -> &str {
    assert_eq!(answer.status, 303, "{}", text(answer));
    answer.headers["location"].to_str().unwrap()
}

#[tokio::test]
async fn a_form_sent_twice_orders_once_and_is_paid() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 2).await;
    let mut buyer = Visitor::signed_in(&mut app).await;
    let page = text(&buyer.look(&format!("/sales/{sale}")).await);
    assert!(page.contains("data-view=\"ready\""), "{page}");
    let form = "quantity=1&key=one-wish";
    let first = buyer.send(&format!("/sales/{sale}/buy"), form).await;
    let again = buyer.send(&format!("/sales/{sale}/buy"), form).await;
    assert_eq!(location(&first), location(&again));
    let order = location(&first).to_owned();
    assert!(text(&buyer.look(&order).await).contains("data-view=\"awaiting_payment\""));
    assert_eq!(location(&buyer.send(&format!("{order}/pay"), "").await), order);
    assert!(text(&buyer.look(&order).await).contains("data-view=\"paid\""));
    app.sound(&sale, 4, 0, 1).await;
}

#[tokio::test]
async fn a_cross_site_form_changes_nothing() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut buyer = Visitor::signed_in(&mut app).await;
    for from in [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("x-nothing", "said")]
    {
        let answer = buyer.ask(Method::POST, &format!("/sales/{sale}/buy"), &[from], "quantity=1").await;
        assert_eq!(answer.status, 403, "{from:?}");
        assert!(text(&answer).contains("not come from a page of this site"), "the page states the reason");
    }
    app.sound(&sale, 5, 0, 0).await;
}

#[tokio::test]
async fn a_refusal_is_shown_on_the_page_of_the_form() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut buyer = Visitor::signed_in(&mut app).await;
    buyer.send(&format!("/sales/{sale}/buy"), "quantity=1&key=a").await;
    let refused = buyer.send(&format!("/sales/{sale}/buy"), "quantity=1&key=b").await;
    assert_eq!(location(&refused), format!("/sales/{sale}?said=limit_reached"));
    let page = text(&buyer.look(location(&refused)).await);
    assert!(page.contains("exceeds the limit of") && page.contains("data-view=\"limit\""));
    let mut stranger = Visitor { client: Client::new(&app.url, None).unwrap(), cookie: String::new() };
    let sent = stranger.send(&format!("/sales/{sale}/buy"), "quantity=1").await;
    assert_eq!(location(&sent), format!("/sign-in?next=/sales/{sale}"));
}

#[tokio::test]
async fn an_order_page_is_visible_to_its_buyer_only() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let (mut buyer, mut other) = (Visitor::signed_in(&mut app).await, Visitor::signed_in(&mut app).await);
    let placed = buyer.send(&format!("/sales/{sale}/buy"), "quantity=1").await;
    let order = location(&placed).to_owned();
    assert_eq!(buyer.look(&order).await.status, 200);
    let foreign = other.look(&order).await;
    assert_eq!(foreign.status, 404);
    assert!(text(&foreign).contains("Page not found"));
    other.send(&format!("{order}/cancel"), "").await;
    assert!(
        text(&buyer.look(&order).await).contains("data-view=\"awaiting_payment\""),
        "the order was not cancelled"
    );
    let mut stranger = Visitor { client: Client::new(&app.url, None).unwrap(), cookie: String::new() };
    assert_eq!(location(&stranger.look("/orders").await), "/sign-in?next=/orders");
}

#[tokio::test]
async fn pages_have_a_strict_content_security_policy_and_are_not_cached() {
    let mut app = TestApp::start().await;
    let mut visitor = Visitor::signed_in(&mut app).await;
    for path in ["/", "/plays", "/orders", "/verify", "/console/sign-in"] {
        let page = visitor.look(path).await;
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(policy.contains("script-src 'self'") && !policy.contains("unsafe-inline"), "{policy}");
        assert_eq!(page.headers["cache-control"], "no-store", "{path}");
    }
    let page = text(&visitor.look("/").await);
    let style = page.split("href=\"").find(|part| part.contains("tidegate.css\"")).unwrap();
    let style = visitor.look(style.split('"').next().unwrap()).await;
    assert_eq!(style.headers["cache-control"], "public, max-age=31536000, immutable");
    assert_eq!(visitor.look("/assets/other/tidegate.css").await.headers["cache-control"], "no-cache");
    assert_eq!(visitor.look("/assets/other/nothing.css").await.status, 404);
}

#[tokio::test]
async fn browsers_get_an_error_page_and_api_clients_a_problem() {
    let mut app = TestApp::start().await;
    let mut visitor = Visitor::signed_in(&mut app).await;
    let page = visitor.look("/nowhere").await;
    assert_eq!((page.status, text(&page).contains("<h1>")), (404, true));
    assert!(text(&visitor.look("/sales/nonsense").await).contains("<h1>"));
    refused(&app.operator.get("/nowhere").await.unwrap(), 404, "not_found");
    refused(&visitor.look("/v1/nowhere").await, 404, "not_found");
}

#[tokio::test]
async fn a_language_chosen_by_url_is_kept_in_a_cookie() {
    let mut app = TestApp::start().await;
    let mut visitor = Visitor::signed_in(&mut app).await;
    let browser = visitor.ask(Method::GET, "/", &[("accept-language", "zh-CN,zh;q=0.9")], "").await;
    assert!(text(&browser).contains("<html lang=\"zh-CN\""));
    let chosen = visitor.look("/?lang=zh").await;
    assert!(chosen.headers["set-cookie"].to_str().unwrap().starts_with("lang=zh;"));
    visitor.cookie += "; lang=zh";
    assert!(text(&visitor.look("/orders").await).contains("我的订单"));
}

#[tokio::test]
async fn a_reminder_is_a_calendar_entry_with_an_alarm() {
    let mut app = TestApp::start().await;
    let sale = app.sale(5, 1).await;
    let mut visitor = Visitor::signed_in(&mut app).await;
    let entry = visitor.look(&format!("/sales/{sale}/reminder.ics")).await;
    assert_eq!(entry.headers["content-type"], "text/calendar; charset=utf-8");
    let entry = text(&entry);
    for line in ["DTSTART:20260501T100000Z", "TRIGGER:-PT5M", "END:VCALENDAR"] {
        assert!(entry.lines().any(|found| found == line), "{entry}");
    }
}
