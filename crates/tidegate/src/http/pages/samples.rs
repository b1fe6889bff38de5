//! One of every page, with something of everything in it, rendered in both languages: what no page may lack or contain.

use std::collections::{BTreeMap, HashSet};

use askama::Template;
use tidegate_core::{Moment, OrderState, Phase};

use super::draw::{DrawPage, PrizeRow};
use super::format::{Art, When};
use super::home::{HomePage, Offer, state, tone};
use super::language::Lang;
use super::orders::{OrderPage, OrdersPage, Row as OrderRow, Step, state_word};
use super::phrases::shop::Shop;
use super::plays::{Address, PlayPage, PlaysPage, Row as PlayRow};
use super::refusals::sentences;
use super::sale::{Mine, Place, SalePage};
use super::sale_views::View;
use super::sign_in::SignInPage;
use super::verify::VerifyPage;
use super::wheel::Slice;
use super::{Page, TroublePage};

const WHEN: When = When(Moment::from_millis(1_800_000_000_000));
/// What nobody may smuggle into a page.
const NASTY: &str = "<script>alert(1)</script>\"'&";

fn page(lang: Lang, signed_in: bool) -> Page {
    Page { lang, w: Shop::of(lang), path: "/sales/7".into(), query: String::new(), signed_in, now_ms: 1 }
}

fn offer(w: &Shop, phase: Phase) -> Offer {
    Offer {
        href: "/sales/7".into(),
        name: NASTY.into(),
        art: Art::waves("Kettle"),
        tone: tone(phase),
        state: state(w, phase),
        price: Some("¥1.00".into()),
        was: Some("¥2.00".into()),
        left: Some((w.units_left.with(3), 3, 10)),
        starts: Some((WHEN, 1)),
    }
}

fn home(lang: Lang) -> String {
    let page = page(lang, false);
    let offers = |phases: &[Phase]| phases.iter().map(|phase| offer(page.w, *phase)).collect();
    let (live, upcoming) = (offers(&[Phase::Live, Phase::Paused]), offers(&[Phase::Upcoming]));
    let over = offers(&[Phase::SoldOut, Phase::Ended]);
    HomePage { page, live, upcoming, over }.render().unwrap()
}

fn sale(lang: Lang, view: View, challenge: &'static str) -> String {
    let page = page(lang, view != View::SignIn);
    let mine = Mine { id: "9".into(), quantity: 1, state: state_word(page.w, OrderState::AwaitingPayment) };
    let place =
        Place { position: Some(4), chance: 50, eta_s: 9, hopeless: true, pass: Some(("p".into(), 1)) };
    SalePage {
        id: "7".into(),
        name: NASTY.into(),
        description: NASTY.into(),
        art: Art::waves("Kettle"),
        price: "¥1.00".into(),
        was: Some("¥2.00".into()),
        limit: 2,
        pay_minutes: 15,
        stock: 10,
        left: 3,
        view,
        starts: WHEN,
        ends: WHEN,
        starts_ms: 1,
        challenge,
        needs_pass: true,
        waiting_room: view == View::Queued,
        unpaid: 2,
        returned: true,
        place: Some(place),
        most: 2,
        mine: vec![mine],
        key: "key".into(),
        picture: Some(("c".into(), "data:image/png;base64,".into())),
        said: Some(page.w.said_sold_out),
        sentences: sentences(page.w),
        shuffle: Some("00".into()),
        page,
    }
    .render()
    .unwrap()
}

fn order(lang: Lang, order_state: OrderState) -> String {
    let page = page(lang, true);
    let w = page.w;
    OrderPage {
        id: "9".into(),
        sale: "7".into(),
        name: NASTY.into(),
        quantity: 1,
        total: "¥1.00".into(),
        units: "#1".into(),
        view: order_state.as_str(),
        state: state_word(w, order_state),
        pay_by: WHEN,
        pay_by_ms: 1,
        timeline: vec![Step { word: w.step_placed, at: WHEN, ahead: false }],
        said: Some(w.said_too_late),
        page,
    }
    .render()
    .unwrap()
}

fn orders(lang: Lang) -> String {
    let page = page(lang, true);
    let state = state_word(page.w, OrderState::Paid);
    let row =
        OrderRow { id: "9".into(), name: NASTY.into(), quantity: 1, total: "¥1.00".into(), at: WHEN, state };
    OrdersPage { page, orders: vec![row], next: Some("8".into()) }.render().unwrap()
}

fn draw(lang: Lang, view: &'static str, wheel: bool) -> String {
    let page = page(lang, view != "sign_in");
    let w = page.w;
    let slice = Slice {
        prize: "1".into(),
        label: NASTY.into(),
        class: "slice-0".into(),
        path: "M0 0Z".into(),
        turn: "rotate(1)".into(),
    };
    let prize = PrizeRow { name: NASTY.into(), kind: w.kind_code, odds: "2 %".into(), left: 1, stock: 2 };
    DrawPage {
        id: "5".into(),
        name: NASTY.into(),
        state: state(w, Phase::Live),
        tone: tone(Phase::Live),
        view,
        starts: WHEN,
        ends: WHEN,
        starts_ms: 1,
        seats: 10,
        seats_left: 5,
        plays_left: 2,
        prizes: vec![prize],
        no_win: Some("98 %".into()),
        strategy: w.strategy_whole,
        commitment: "00".into(),
        slices: wheel.then(|| vec![slice]),
        challenge: "image",
        needs_pass: true,
        waiting_room: false,
        mine: vec![play_row(w)],
        key: "key".into(),
        said: Some(w.said_paused),
        sentences: sentences(w),
        page,
    }
    .render()
    .unwrap()
}

fn play_row(w: &Shop) -> PlayRow {
    PlayRow {
        id: "3".into(),
        draw: NASTY.into(),
        seat: 4,
        won: Some(NASTY.into()),
        content: Some(NASTY.into()),
        state: state_word(w, OrderState::Paid),
        at: WHEN,
    }
}

fn plays(lang: Lang) -> String {
    let page = page(lang, true);
    let plays = vec![play_row(page.w), PlayRow { won: None, content: None, ..play_row(page.w) }];
    PlaysPage { page, plays, next: Some("2".into()) }.render().unwrap()
}

fn play(lang: Lang, queued: bool) -> String {
    let page = page(lang, true);
    let wrong = ["name", "phone", "line1", "postcode", "country"].map(|field| (field, page.w.bad_line));
    let wrong = BTreeMap::from(wrong);
    let address = Address { open: true, given: true, name: NASTY.into(), wrong, ..Address::default() };
    PlayPage {
        draw_id: "5".into(),
        play: play_row(page.w),
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

fn sign_in(lang: Lang, mode: &'static str, sent: bool) -> String {
    let page = page(lang, false);
    SignInPage {
        mode,
        next: "/sales/7".into(),
        phone: NASTY.into(),
        name: NASTY.into(),
        wrong: (!sent).then_some(page.w.bad_phone),
        sent,
        code: Some("123456".into()),
        no_cookie: true,
        page,
    }
    .render()
    .unwrap()
}

fn rest(lang: Lang) -> Vec<(String, String)> {
    let verify =
        VerifyPage { page: page(lang, false), draw: NASTY.into(), over: vec![("5".into(), NASTY.into())] };
    let troubles = ["not_found", "busy", "rate_limited", "csrf", "internal"];
    let troubles =
        troubles.map(|code| (code.to_owned(), TroublePage::of(page(lang, true), code).render().unwrap()));
    let mut pages = vec![("verify".to_owned(), verify.render().unwrap())];
    pages.extend(troubles);
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
    let desk = super::super::console::sample_desk(lang);
    pages.extend(super::super::console::samples(&desk));
    pages
}

const MOST_BYTES: usize = 100_000;

#[test]
fn every_page_renders_in_both_languages_and_lets_nothing_in() {
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
            assert!(page.len() < MOST_BYTES, "{name} has {} bytes", page.len());
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
fn a_trouble_leads_nobody_to_another_site() {
    let at = |path: &str| TroublePage::of(Page { path: path.into(), ..page(Lang::En, false) }, "busy").again;
    assert_eq!(at("/orders/9").as_deref(), Some("/orders/9"));
    assert_eq!(at("//evil.example/orders").as_deref(), Some("/"));
}
