//! Renders every page with sample data in both languages and checks the requirements common to all pages.

use std::collections::{BTreeMap, HashSet};

use askama::Template;
use tidegate_core::{Moment, OrderState, Phase, ProblemCode};

use super::draw::{DrawPage, PrizeRow};
use super::home::{HomePage, Offer, phase_badge};
use super::messages::all_messages;
use super::orders::{OrderPage, OrdersPage, Row as OrderRow, Step, order_badge};
use super::plays::{Address, PlayPage, PlaysPage, Row as PlayRow};
use super::sale::{OwnOrder, PlaceView, SalePage};
use super::sale_views::View;
use super::sign_in::SignInPage;
use super::verify::VerifyPage;
use super::wheel::Slice;
use super::{ErrorPage, PageContext};
use crate::format::{ItemImage, Timestamp};
use crate::i18n::language::Lang;
use crate::i18n::phrases::shop::ShopPhrases;

const AT: Timestamp = Timestamp(Moment::from_millis(1_800_000_000_000));
/// Markup that must not reach a page unescaped.
const NASTY: &str = "<script>alert(1)</script>\"'&";

fn page(lang: Lang, signed_in: bool) -> PageContext {
    PageContext {
        lang,
        t: ShopPhrases::of(lang),
        path: "/sales/7".into(),
        query: String::new(),
        signed_in,
        now_ms: 1,
    }
}

fn offer(t: &ShopPhrases, phase: Phase) -> Offer {
    Offer {
        href: "/sales/7".into(),
        name: NASTY.into(),
        image: ItemImage::placeholder("Kettle"),
        state: phase_badge(t, phase),
        price: Some("¥1.00".into()),
        original_price: Some("¥2.00".into()),
        left: Some((t.units_left.with(3), 3, 10)),
        starts: Some((AT, 1)),
    }
}

fn home(lang: Lang) -> String {
    let page = page(lang, false);
    let offers = |phases: &[Phase]| phases.iter().map(|phase| offer(page.t, *phase)).collect();
    let (live, upcoming) = (offers(&[Phase::Live, Phase::Paused]), offers(&[Phase::Upcoming]));
    let ended = offers(&[Phase::SoldOut, Phase::Ended]);
    HomePage { page, live, upcoming, ended }.render().unwrap()
}

fn sale(lang: Lang, view: View, challenge: &'static str) -> String {
    let page = page(lang, view != View::SignIn);
    let own =
        OwnOrder { id: "9".into(), quantity: 1, state: order_badge(page.t, OrderState::AwaitingPayment) };
    let place =
        PlaceView { position: Some(4), chance: 50, eta_s: 9, hopeless: true, pass: Some(("p".into(), 1)) };
    SalePage {
        id: "7".into(),
        name: NASTY.into(),
        description: NASTY.into(),
        image: ItemImage::placeholder("Kettle"),
        price: "¥1.00".into(),
        original_price: Some("¥2.00".into()),
        limit: 2,
        pay_minutes: 15,
        stock: 10,
        left: 3,
        view,
        starts: AT,
        ends: AT,
        starts_ms: 1,
        challenge,
        needs_pass: true,
        waiting_room: view == View::Queued,
        unpaid: 2,
        returned: true,
        place: Some(place),
        max_quantity: 2,
        own_orders: vec![own],
        key: "key".into(),
        picture: Some(("c".into(), "data:image/png;base64,".into())),
        message: Some(page.t.msg_sold_out.to_string()),
        messages: all_messages(page.t, 2),
        shuffle: Some("00".into()),
        page,
    }
    .render()
    .unwrap()
}

fn order(lang: Lang, order_state: OrderState) -> String {
    let page = page(lang, true);
    let t = page.t;
    OrderPage {
        id: "9".into(),
        sale: "7".into(),
        name: NASTY.into(),
        quantity: 1,
        total: "¥1.00".into(),
        units: "#1".into(),
        view: order_state.as_str(),
        state: order_badge(t, order_state),
        pay_by: AT,
        pay_by_ms: 1,
        timeline: vec![Step { label: t.step_placed, at: AT, is_future: false }],
        message: Some(t.msg_too_late.to_string()),
        page,
    }
    .render()
    .unwrap()
}

fn orders(lang: Lang) -> String {
    let page = page(lang, true);
    let state = order_badge(page.t, OrderState::Paid);
    let row =
        OrderRow { id: "9".into(), name: NASTY.into(), quantity: 1, total: "¥1.00".into(), at: AT, state };
    OrdersPage { page, orders: vec![row], next: Some("8".into()) }.render().unwrap()
}

fn draw(lang: Lang, view: &'static str, wheel: bool) -> String {
    let page = page(lang, view != "sign_in");
    let t = page.t;
    let slice = Slice {
        prize: "1".into(),
        label: NASTY.into(),
        class: "slice-0".into(),
        path: "M0 0Z".into(),
        transform: "rotate(1)".into(),
    };
    let prize = PrizeRow { name: NASTY.into(), kind: t.kind_code, odds: "2 %".into(), left: 1, stock: 2 };
    DrawPage {
        id: "5".into(),
        name: NASTY.into(),
        state: phase_badge(t, Phase::Live),
        view,
        starts: AT,
        ends: AT,
        starts_ms: 1,
        seats: 10,
        seats_left: 5,
        plays_left: 2,
        prizes: vec![prize],
        no_win: Some("98 %".into()),
        strategy: t.strategy_whole,
        commitment: "00".into(),
        slices: wheel.then(|| vec![slice]),
        challenge: "image",
        needs_pass: true,
        waiting_room: false,
        own_plays: vec![play_row(t)],
        key: "key".into(),
        message: Some(t.msg_paused.to_string()),
        messages: all_messages(t, 1),
        page,
    }
    .render()
    .unwrap()
}

fn play_row(t: &ShopPhrases) -> PlayRow {
    PlayRow {
        id: "3".into(),
        draw: NASTY.into(),
        seat: 4,
        won: Some(NASTY.into()),
        content: Some(NASTY.into()),
        state: order_badge(t, OrderState::Paid),
        at: AT,
    }
}

fn plays(lang: Lang) -> String {
    let page = page(lang, true);
    let plays = vec![play_row(page.t), PlayRow { won: None, content: None, ..play_row(page.t) }];
    PlaysPage { page, plays, next: Some("2".into()) }.render().unwrap()
}

fn play(lang: Lang, queued: bool) -> String {
    let page = page(lang, true);
    let errors = ["name", "phone", "line1", "postcode", "country"].map(|field| (field, page.t.bad_line));
    let errors = BTreeMap::from(errors);
    let address = Address { open: true, given: true, name: NASTY.into(), errors, ..Address::default() };
    PlayPage {
        draw_id: "5".into(),
        play: play_row(page.t),
        queued,
        rejected: false,
        commitment: "00".into(),
        client_seed: NASTY.into(),
        number: Some(1),
        hash: Some("00".into()),
        address: Some(address),
        page,
    }
    .render()
    .unwrap()
}

fn sign_in(lang: Lang, mode: &'static str, code_sent: bool) -> String {
    let page = page(lang, false);
    SignInPage {
        mode,
        next: "/sales/7".into(),
        phone: NASTY.into(),
        name: NASTY.into(),
        error: (!code_sent).then_some(page.t.bad_phone),
        code_sent,
        code: Some("123456".into()),
        no_cookie: true,
        page,
    }
    .render()
    .unwrap()
}

fn rest(lang: Lang) -> Vec<(String, String)> {
    let verify =
        VerifyPage { page: page(lang, false), draw: NASTY.into(), ended: vec![("5".into(), NASTY.into())] };
    let codes = [
        ProblemCode::NotFound,
        ProblemCode::Busy,
        ProblemCode::RateLimited,
        ProblemCode::Csrf,
        ProblemCode::Internal,
    ];
    let errors =
        codes.map(|code| (code.to_string(), ErrorPage::of(page(lang, true), code).render().unwrap()));
    let mut pages = vec![("verify".to_owned(), verify.render().unwrap())];
    pages.extend(errors);
    pages
}

/// Every page in this language, by name.
fn all(lang: Lang) -> Vec<(String, String)> {
    let mut pages =
        vec![("home".into(), home(lang)), ("orders".into(), orders(lang)), ("plays".into(), plays(lang))];
    for view in View::ALL {
        for challenge in ["none", "pow", "image"] {
            pages.push((format!("sale {} {challenge}", view.as_str()), sale(lang, view, challenge)));
        }
    }
    for state in OrderState::ALL {
        pages.push((format!("order {}", state.as_str()), order(lang, *state)));
    }
    for view in ["upcoming", "sign_in", "ready", "limit", "paused", "sold_out", "ended"] {
        pages.push((format!("draw {view}"), draw(lang, view, true)));
    }
    pages.push(("draw with cards".into(), draw(lang, "ready", false)));
    for queued in [false, true] {
        pages.push((format!("play {queued}"), play(lang, queued)));
    }
    for (mode, sent) in [("password", false), ("code", false), ("code", true), ("new", false), ("new", true)]
    {
        pages.push((format!("sign-in {mode} {sent}"), sign_in(lang, mode, sent)));
    }
    pages.extend(rest(lang));
    let ctx = crate::console::sample_context(lang);
    pages.extend(crate::console::samples(&ctx));
    pages
}

const MAX_BYTES: usize = 100_000;

#[test]
fn every_page_renders_in_both_languages_and_escapes_markup() {
    for lang in Lang::ALL {
        for (name, page) in all(lang) {
            assert!(page.contains(&format!("<html lang=\"{}\"", lang.tag())), "{name}");
            assert!(!page.contains("<script>alert"), "{name} lets markup in");
            assert!(
                !page.contains(" style=") && !page.contains("<style"),
                "{name} has a style the policy forbids"
            );
            assert!(
                !page.contains(" onclick=") && !page.contains("javascript:"),
                "{name} has a script in it"
            );
            assert!(page.matches("<h1").count() == 1, "{name} has {} headings", page.matches("<h1").count());
            let unfilled =
                page.split('>').any(|piece| piece.split('<').next().is_some_and(|text| text.contains("{}")));
            assert!(!unfilled, "{name} shows a phrase that was not filled in");
            let ids: Vec<_> =
                page.split(" id=\"").skip(1).filter_map(|rest| rest.split('"').next()).collect();
            let once: HashSet<_> = ids.iter().collect();
            assert_eq!(once.len(), ids.len(), "{name} has an id twice: {ids:?}");
            assert!(page.len() < MAX_BYTES, "{name} has {} bytes", page.len());
        }
    }
}

#[test]
fn a_page_shows_exactly_one_view() {
    for view in View::ALL {
        let page = sale(Lang::En, view, "none");
        let hidden =
            page.lines().filter(|line| line.contains("class=\"view\"") && line.contains(" hidden>")).count();
        let views = page.lines().filter(|line| line.contains("<section class=\"view\"")).count();
        assert_eq!(views - hidden, 1, "{}", view.as_str());
    }
}

#[test]
fn an_error_page_never_links_to_another_site() {
    let retry_path = |path: &str| {
        ErrorPage::of(PageContext { path: path.into(), ..page(Lang::En, false) }, ProblemCode::Busy)
            .retry_path
    };
    assert_eq!(retry_path("/orders/9").as_deref(), Some("/orders/9"));
    assert_eq!(retry_path("//evil.example/orders").as_deref(), Some("/"));
}
