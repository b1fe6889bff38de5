//! Demo data for an empty ledger: a running sale, one that starts in two minutes, one that is sold out; a draw; and
//! three buyers with well-known tokens, so that a first order takes a single request.

use std::sync::Arc;
use std::time::Duration;

use tidegate_app::campaigns::CampaignTerms;
use tidegate_app::catalogue::ItemTerms;
use tidegate_app::draws::DrawTerms;
use tidegate_app::sales::SaleTerms;
use tidegate_app::{App, Refusal};
use tidegate_core::campaign::Step;
use tidegate_core::draw::{Grant, ODDS_TOTAL, PrizeKind, Strategy};
use tidegate_core::{Campaign, Money, Prize, Protect, Sale, Window};
use tidegate_ledger::Actor;

/// Tokens of the demo buyers. They are public: every client of a demo server can use them.
pub const BUYERS: [&str; 3] = ["demo-buyer-1", "demo-buyer-2", "demo-buyer-3"];

const DAY: Duration = Duration::from_secs(24 * 3600);
const YEARS: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// Fills the ledger through the use cases, like any other client.
pub async fn fill(app: &Arc<App>) -> Result<(), Refusal> {
    let tokens = BUYERS.map(str::to_owned);
    app.accounts.create_buyers("demo", &tokens, YEARS, Actor::Clock, None).await?;
    let sold_out = sale(
        app,
        "Vinyl: Live at the Harbour",
        "The last three copies. They are gone.",
        4_500,
        3,
        1,
        Duration::ZERO,
    )
    .await?;
    for token in BUYERS {
        let buyer = app.accounts.buyer(Some(token)).await?;
        let order = app.ordering.place(buyer, &sold_out, 1, None, None).await?.order;
        app.ordering.pay(buyer, order.id).await?;
    }
    let soon = Duration::from_secs(120);
    let text = "Starts two minutes after the first start of this server.";
    sale(app, "Trail running shoes", text, 39_900, 50, 2, soon).await?;
    let text = "Hot-swappable, 87 keys. Buy one: nothing is charged.";
    sale(app, "Mechanical keyboard", text, 19_900, 100, 10, Duration::ZERO).await?;
    draw(app).await
}

/// A draw with one prize of each kind that does not involve the merchant.
async fn draw(app: &Arc<App>) -> Result<(), Refusal> {
    let prize = |name: &str, kind, percent: u32, stock, content: &str| Prize {
        name: name.into(),
        kind,
        odds: percent * (ODDS_TOTAL / 100),
        stock,
        grant: Grant::Instant,
        content: content.into(),
    };
    let codes: Vec<String> = (1..=50).map(|number| format!("DEMO-{:04}", number * 7919 % 10_000)).collect();
    let starts_at = app.now();
    let terms = DrawTerms {
        name: "Midsummer wheel".into(),
        strategy: Strategy::Whole,
        prizes: vec![
            prize("City bicycle", PrizeKind::Goods, 2, 3, ""),
            prize("A code for ten off", PrizeKind::Code, 20, 50, ""),
            prize("A wish", PrizeKind::Text, 40, 500, "May every queue you join be short."),
        ],
        codes: vec![vec![], codes, vec![]],
        campaign: CampaignTerms {
            stock: 500,
            window: Window { starts_at, ends_at: starts_at + 30 * DAY },
            per_user_limit: 20,
            shards: 1,
            protect: Protect::default(),
        },
    };
    let draft = app.campaigns.create_draw(terms, Actor::Clock, None).await?;
    app.campaigns.step(draft.id, Step::Publish { approval_required: false }, Actor::Clock, None).await?;
    Ok(())
}

async fn sale(
    app: &Arc<App>,
    name: &str,
    description: &str,
    amount: i64,
    stock: u32,
    per_user_limit: u32,
    starts_in: Duration,
) -> Result<Campaign, Refusal> {
    let currency = "CNY".parse().map_err(|_| Refusal::Unavailable("CNY is not a currency".into()))?;
    let price = Money { amount, currency };
    let list_price = Money { amount: amount * 3 / 2, currency };
    let item = app
        .catalogue
        .create_item(
            ItemTerms {
                name: name.into(),
                description: description.into(),
                price: list_price,
                image_url: None,
            },
            Actor::Clock,
            None,
        )
        .await?;
    let starts_at = app.now() + starts_in;
    let terms = SaleTerms {
        sale: Sale { item: item.id, price, pay_within_s: 15 * 60 },
        campaign: CampaignTerms {
            stock,
            window: Window { starts_at, ends_at: starts_at + 30 * DAY },
            per_user_limit,
            shards: 1,
            protect: Protect::default(),
        },
    };
    let draft = app.campaigns.create_sale(terms, Actor::Clock, None).await?;
    app.campaigns.step(draft.id, Step::Publish { approval_required: false }, Actor::Clock, None).await
}
