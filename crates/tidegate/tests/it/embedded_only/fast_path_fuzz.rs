//! Differential fuzz of the fast path and the hot routes: the same bytes are sent to a server with both and to one on
//! which hyper and the router serve everything, and both must answer alike: status, headers but `Date`, body, and
//! whether the connection stays open.
//!
//! The cases are generated from seeds: a few plain requests on a connection, and in half of the cases one or two faults
//! (an odd method, target, version or header, a damaged byte, pipelining, a split). A failure names its seed.

use std::time::Duration;

use futures_util::future::join_all;
use tidegate_core::{CampaignId, DrawId, OrderId};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::support::{ADMIN_KEY, TestApp};

/// Sent behind each case: an answer to it shows that the connection is open and in step.
const PROBE: &str = "GET /healthz HTTP/1.1\r\nhost: probe\r\n\r\n";
/// Cases at a time.
const PARALLEL: u64 = 32;
const QUIET: Duration = Duration::from_millis(150);
/// A difference counts only if it is still there when both servers are given this long to answer.
const VERY_QUIET: Duration = Duration::from_secs(2);

/// The number of a sale, a draw and an order that no server has.
const ABSENT: u64 = 1 << 40;

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn one_in(&mut self, bound: usize) -> bool {
        self.below(bound) == 0
    }

    fn pick(&mut self, from: &[&'static str]) -> &'static str {
        from[self.below(from.len())]
    }
}

// Parts of requests that the fast path accepts.
const METHODS: &[&str] = &["GET", "GET", "GET", "POST", "POST", "PUT", "PATCH", "DELETE"];
const TARGETS: &[&str] = &[
    "/",
    "/sales/X",
    "/sign-in",
    "/verify",
    "/nothing",
    "/console",
    "/console/sign-in",
    "/healthz",
    "/v1/sales",
    "/v1/sales?limit=0",
    "/v1/sales/{sale}/orders",
    "/v1/draws/{draw}/plays",
    "/v1/orders",
    "/v1/orders/{order}/pay",
    "/v1/auth/login",
    "/v1/admin/sales",
    "/v1/admin/items",
];
const HEADERS: &[&str] = &[
    "accept: text/html",
    "accept: application/json",
    "accept-language: zh",
    "connection: Keep-Alive",
    "cookie: __Host-session=nonsense",
    "idempotency-key: one",
    "if-none-match: \"x\"",
    "x-empty:",
];
const BODIES: &[&str] =
    &["", "", "{}", "{\"quantity\":1}", "{\"quantity\":", "[1]", "phone=1&password=2", "\r\n\r\n"];
const TYPES: &[&str] = &["application/json", "application/x-www-form-urlencoded", "text/plain"];

// Parts of requests that the fast path leaves to hyper, and parts that are invalid.
const ODD_METHODS: &[&str] = &["HEAD", "OPTIONS", "get", "BREW", " GET", "\r\nGET"];
const ODD_TARGETS: &[&str] = &[
    "/v1/nothing?a=[b]%zz",
    "/v1/a b",
    " /v1/sales",
    "http://x/v1/sales",
    "*",
    "v1/sales",
    "/\u{e9}",
    "/a#b",
];
const ODD_VERSIONS: &[&str] = &["HTTP/1.0", "HTTP/2.0", "HTTP/1.1 ", "http/1.1", ""];
const ODD_HEADERS: &[&str] = &[
    "connection: close",
    "connection: keep-alive, upgrade",
    "expect: 100-continue",
    "host: second",
    "te: trailers",
    "transfer-encoding: identity",
    "transfer-encoding: chunked",
    "upgrade: h2c",
    "content-length: 0",
    "content-length: 2",
    "content-length: +2",
    "content-length: 2, 2",
    "content-length: 99999999999999999999999",
    "x-high: \u{e9}",
    " folded: line",
    "no-colon",
    "space : before",
];

/// Ids that a server accepts as well formed and that name nothing. Each server keys its ids with a secret of its own,
/// so a fixed text would be an id on one server and none on the other.
struct Ids {
    sale: String,
    draw: String,
    order: String,
}

impl Ids {
    fn of(server: &TestApp) -> Self {
        let app = &server.app;
        Self {
            sale: app.text(CampaignId::from_raw(ABSENT)).as_str().to_owned(),
            draw: app.text(DrawId::from_raw(ABSENT)).as_str().to_owned(),
            order: app.text(OrderId::from_raw(ABSENT)).as_str().to_owned(),
        }
    }
}

struct Request {
    method: &'static str,
    target: &'static str,
    version: &'static str,
    headers: Vec<String>,
    body: &'static str,
}

impl Request {
    /// A request that the fast path accepts.
    fn plain(random: &mut Random) -> Self {
        let (method, target) = (random.pick(METHODS), random.pick(TARGETS));
        let mut headers = vec!["Host: x".to_owned()];
        if random.one_in(3) {
            headers.push(format!("authorization: Bearer {ADMIN_KEY}"));
        }
        for _ in 0..random.below(3) {
            headers.push(random.pick(HEADERS).into());
        }
        let body = if method == "GET" { "" } else { random.pick(BODIES) };
        if !body.is_empty() || random.one_in(3) {
            headers.push(format!("content-type: {}", random.pick(TYPES)));
            headers.push(format!("Content-Length: {}", body.len()));
        }
        Self { method, target, version: "HTTP/1.1", headers, body }
    }

    /// Adds one fault to the request.
    fn disturb(&mut self, random: &mut Random) {
        match random.below(7) {
            0 => self.method = random.pick(ODD_METHODS),
            1 => self.target = random.pick(ODD_TARGETS),
            2 => self.version = random.pick(ODD_VERSIONS),
            3 => drop(self.headers.remove(random.below(self.headers.len()))),
            4 => self.body = random.pick(BODIES),
            _ => {
                let at = random.below(self.headers.len() + 1);
                self.headers.insert(at, random.pick(ODD_HEADERS).into());
            }
        }
    }

    fn bytes(&self, ids: &Ids) -> Vec<u8> {
        let Self { method, target, version, headers, body } = self;
        let target =
            target.replace("{sale}", &ids.sale).replace("{draw}", &ids.draw).replace("{order}", &ids.order);
        format!("{method} {target} {version}\r\n{}\r\n\r\n{body}", headers.join("\r\n")).into_bytes()
    }
}

/// Removes or inserts a byte, or cuts the end off.
fn damage(random: &mut Random, bytes: &mut Vec<u8>) {
    let at = random.below(bytes.len());
    match random.below(3) {
        0 => drop(bytes.remove(at)),
        1 => bytes.insert(at, b"\r\n\0 :\xff"[random.below(6)]),
        _ => bytes.truncate(at + 1),
    }
}

/// The pieces that a client sends one after the other: plain requests, and in half of the cases one or two faults.
fn pieces(seed: u64, ids: &Ids) -> Vec<Vec<u8>> {
    let mut random = Random(seed);
    let mut requests: Vec<Request> = (0..=random.below(3)).map(|_| Request::plain(&mut random)).collect();
    let faults = random.below(4).saturating_sub(1);
    let mut is_joined = false;
    let mut is_damaged = false;
    let mut is_split = false;
    for _ in 0..faults {
        match random.below(8) {
            0 => is_joined = true,
            1 => is_damaged = true,
            2 => is_split = true,
            _ => {
                let at = random.below(requests.len());
                requests[at].disturb(&mut random);
            }
        }
    }
    let mut pieces: Vec<Vec<u8>> = requests.iter().map(|request| request.bytes(ids)).collect();
    if is_joined {
        pieces = vec![pieces.concat()];
    }
    let at = random.below(pieces.len());
    if is_damaged {
        damage(&mut random, &mut pieces[at]);
    }
    if is_split && pieces[at].len() > 1 {
        let middle = 1 + random.below(pieces[at].len() - 1);
        let rest = pieces[at].split_off(middle);
        pieces.insert(at + 1, rest);
    }
    pieces
}

/// Reads until nothing arrives for a while; `false` if the server closed the connection.
async fn read(stream: &mut TcpStream, heard: &mut Vec<u8>, quiet: Duration) -> bool {
    loop {
        match tokio::time::timeout(quiet, stream.read_buf(heard)).await {
            Err(_) => return true,
            Ok(Ok(bytes)) if bytes > 0 => {}
            Ok(_) => return false,
        }
    }
}

/// What the server answers, with headers in order and without dates; and whether the connection is still open.
async fn play(url: &str, pieces: &[Vec<u8>], quiet: Duration) -> (String, bool) {
    let mut stream = TcpStream::connect(url.strip_prefix("http://").unwrap()).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let mut heard = Vec::new();
    for piece in pieces {
        // The server may have closed the connection; the next read shows that.
        let _ = stream.write_all(piece).await;
        // Long enough for most answers, so that most requests of a connection are read one by one.
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let mut is_open = read(&mut stream, &mut heard, quiet).await;
    if is_open {
        let _ = stream.write_all(PROBE.as_bytes()).await;
        is_open = read(&mut stream, &mut heard, quiet).await;
    }
    (normalised(&String::from_utf8_lossy(&heard)), is_open)
}

fn normalised(heard: &str) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in heard.split("\r\n\r\n") {
        let mut lines: Vec<&str> = part.split("\r\n").filter(|line| !line.starts_with("date: ")).collect();
        lines.sort_unstable();
        parts.push(lines.join("\n"));
    }
    parts.join("\n\n")
}

/// Compares both servers on the cases of these seeds.
pub(crate) async fn compare(seeds: std::ops::Range<u64>) {
    let fast = TestApp::start().await;
    let plain = TestApp::builder().with("TIDEGATE__HTTP__FAST_PATH", "false");
    let hyper = plain.with("TIDEGATE__HTTP__HOT_ROUTES", "false").start().await;
    let (fast_ids, hyper_ids) = (&Ids::of(&fast), &Ids::of(&hyper));
    let (fast_url, hyper_url) = (&fast.url, &hyper.url);
    let case = |seed: u64| async move {
        let (for_fast, for_hyper) = (pieces(seed, fast_ids), pieces(seed, hyper_ids));
        let both =
            async |quiet| tokio::join!(play(fast_url, &for_fast, quiet), play(hyper_url, &for_hyper, quiet));
        let (mut one, mut other) = both(QUIET).await;
        if one != other {
            (one, other) = both(VERY_QUIET).await;
        }
        let sent: Vec<_> = for_fast.iter().map(|piece| String::from_utf8_lossy(piece)).collect();
        assert_eq!(one, other, "seed {seed}: {sent:?}");
    };
    let (mut from, cases) = (seeds.start, seeds.end - seeds.start);
    while from < seeds.end {
        let to = (from + PARALLEL).min(seeds.end);
        join_all((from..to).map(case)).await;
        from = to;
    }
    let handed_over = fast.app.metrics.handed_over_connections.get();
    assert!((cases / 8..cases * 5 / 8).contains(&handed_over), "{handed_over} of {cases} left the fast path");
    assert_eq!(hyper.app.metrics.handed_over_connections.get(), 0, "the setting turns the fast path off");
}

#[tokio::test]
async fn the_fast_path_answers_what_hyper_answers() {
    compare(0..400).await;
}
