//! Outbound HTTP: posts to addresses that operators name, over http or https. Guards against server-side request
//! forgery.
//!
//! Invariants: a name is resolved once, and the connection goes to the address that was checked; private and loopback
//! addresses are reached only where the configuration allows their network; redirects are not followed; every request
//! has a timeout, from the resolution of the name to the last byte of the answer, and every answer a size limit; a
//! connection on which a request timed out is not used again.

use std::future::Future;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{Request, Uri, header};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use ipnet::IpNet;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

/// The largest answer that is read, in bytes.
const MAX_ANSWER: usize = 64 << 10;
/// Deadline of opening a connection to one address, and of TCP's acknowledgements.
const CONNECT_WITHIN: Duration = Duration::from_secs(5);
const KEEPALIVE_AFTER: Duration = Duration::from_secs(5);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(2);
const KEEPALIVE_PROBES: u32 = 3;

/// Why a request did not get an answer.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error("the address cannot be read: {0}")]
    Address(#[from] hyper::http::uri::InvalidUri),
    /// The address must not be reached.
    #[error("{0}")]
    Forbidden(String),
    #[error("the request cannot be built: {0}")]
    Request(#[from] hyper::http::Error),
    /// The connection failed; the innermost reason.
    #[error("{0}")]
    Connection(String),
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
}

/// Why the client cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    #[error("deliveries.ca_file {} cannot be read: {reason}", .path.display())]
    CaFile { path: PathBuf, reason: String },
    #[error("TLS cannot be set up: {0}")]
    Tls(#[from] rustls::Error),
}

type Outgoing = Client<HttpsConnector<HttpConnector<Resolver>>, Full<Bytes>>;

/// Which addresses a request may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses, and networks the configuration allows: for addresses that come in over the API.
    Public,
    /// Any address: for addresses from the configuration.
    Any,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub retry_after: Option<Duration>,
    /// `None` if the connection broke off or the body was too long.
    pub body: Option<Bytes>,
}

/// Configuration of outbound requests.
#[derive(Clone, Debug, Default)]
pub struct OutboundSettings {
    pub allowed: Vec<IpNet>,
    pub timeout: Duration,
    /// PEM file of certificates that are trusted in addition to the public roots.
    pub ca_file: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub struct OutboundHttp {
    public: Outgoing,
    any: Outgoing,
    allowed: Arc<[IpNet]>,
    timeout: Duration,
}

impl OutboundHttp {
    pub fn new(settings: &OutboundSettings) -> Result<Self, SetupError> {
        let roots = Arc::new(roots(settings.ca_file.as_deref())?);
        let allowed: Arc<[IpNet]> = settings.allowed.clone().into();
        let client = |reach| -> Result<Outgoing, SetupError> {
            let mut http = HttpConnector::new_with_resolver(Resolver { reach, allowed: allowed.clone() });
            http.enforce_http(false);
            http.set_nodelay(true);
            http.set_connect_timeout(Some(settings.timeout.min(CONNECT_WITHIN)));
            // A kept connection whose other end has vanished is noticed before it is used again.
            http.set_keepalive(Some(KEEPALIVE_AFTER));
            http.set_keepalive_interval(Some(KEEPALIVE_EVERY));
            http.set_keepalive_retries(Some(KEEPALIVE_PROBES));
            http.set_tcp_user_timeout(Some(CONNECT_WITHIN));
            let tls =
                rustls::ClientConfig::builder_with_provider(rustls::crypto::ring::default_provider().into())
                    .with_safe_default_protocol_versions()?
                    .with_root_certificates(roots.clone())
                    .with_no_client_auth();
            let https = HttpsConnectorBuilder::new()
                .with_tls_config(tls)
                .https_or_http()
                .enable_http1()
                .wrap_connector(http);
            Ok(Client::builder(TokioExecutor::new())
                .pool_timer(TokioTimer::new())
                .pool_idle_timeout(Duration::from_secs(30))
                .build(https))
        };
        Ok(Self {
            public: client(Reach::Public)?,
            any: client(Reach::Any)?,
            allowed: allowed.clone(),
            timeout: settings.timeout,
        })
    }

    /// Posts `body`. An answer is `Ok`, whatever its status.
    pub async fn post(
        &self,
        reach: Reach,
        url: &str,
        headers: &[(&'static str, String)],
        body: String,
    ) -> Result<Answer, OutboundError> {
        let uri: Uri = url.parse()?;
        if reach == Reach::Public {
            self.check(&uri).map_err(OutboundError::Forbidden)?;
        }
        let mut request =
            Request::post(uri).header(header::USER_AGENT, concat!("tidegate/", env!("CARGO_PKG_VERSION")));
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        let request = request.body(Full::new(body.into()))?;
        let client = if reach == Reach::Public { &self.public } else { &self.any };
        tokio::time::timeout(self.timeout, exchange(client, request))
            .await
            .map_err(|_| OutboundError::Timeout(self.timeout))?
    }

    /// Checks an address that came in from outside; a host name is checked again when it is resolved.
    pub fn check(&self, uri: &Uri) -> Result<(), String> {
        if !matches!(uri.scheme_str(), Some("http" | "https")) {
            return Err("must begin with http:// or https://".into());
        }
        let host = uri.host().filter(|host| !host.is_empty()).ok_or("must name a host")?;
        if uri.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            return Err("must not carry a user or password".into());
        }
        match host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            Ok(address) if !reachable(address, &self.allowed) => Err(not_public(address)),
            _ if host.eq_ignore_ascii_case("localhost")
                && !reachable(Ipv4Addr::LOCALHOST.into(), &self.allowed) =>
            {
                Err(not_public(Ipv4Addr::LOCALHOST.into()))
            }
            _ => Ok(()),
        }
    }
}

fn not_public(address: IpAddr) -> String {
    format!(
        "leads to {address}, which is not a public address; deliveries.allow_networks can allow its network"
    )
}

async fn exchange(client: &Outgoing, request: Request<Full<Bytes>>) -> Result<Answer, OutboundError> {
    let response =
        client.request(request).await.map_err(|error| OutboundError::Connection(reason(&error)))?;
    let (parts, body) = response.into_parts();
    let retry_after =
        parts.headers.get(header::RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
    let body = Limited::new(body, MAX_ANSWER).collect().await.map(http_body_util::Collected::to_bytes);
    Ok(Answer {
        status: parts.status.as_u16(),
        retry_after: retry_after.map(Duration::from_secs),
        body: body.ok(),
    })
}

/// The innermost reason: "connection refused", not "client error (Connect)".
fn reason(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(inner) => reason(inner),
        None => error.to_string(),
    }
}

fn roots(ca_file: Option<&Path>) -> Result<rustls::RootCertStore, SetupError> {
    let mut roots = rustls::RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    if let Some(path) = ca_file {
        let unreadable = |error: rustls::pki_types::pem::Error| SetupError::CaFile {
            path: path.to_owned(),
            reason: error.to_string(),
        };
        for certificate in CertificateDer::pem_file_iter(path).map_err(unreadable)? {
            roots.add(certificate.map_err(unreadable)?)?;
        }
    }
    Ok(roots)
}

/// Resolves names, and leaves out the addresses that must not be reached.
#[derive(Clone, Debug)]
struct Resolver {
    reach: Reach,
    allowed: Arc<[IpNet]>,
}

type Resolving = Pin<Box<dyn Future<Output = io::Result<std::vec::IntoIter<SocketAddr>>> + Send>>;

impl tower::Service<Name> for Resolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Resolving;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let Self { reach, allowed } = self.clone();
        Box::pin(async move {
            let found: Vec<SocketAddr> = tokio::net::lookup_host((name.as_str(), 0)).await?.collect();
            let first = found.first().map(SocketAddr::ip);
            let may: Vec<SocketAddr> = found
                .into_iter()
                .filter(|found| reach == Reach::Any || reachable(found.ip(), &allowed))
                .collect();
            match first {
                Some(address) if may.is_empty() => {
                    Err(io::Error::other(format!("{name} {}", not_public(address))))
                }
                _ => Ok(may.into_iter()),
            }
        })
    }
}

/// Whether the address is public, or in a network that is allowed.
fn reachable(address: IpAddr, allowed: &[IpNet]) -> bool {
    if allowed.iter().any(|network| network.contains(&address)) {
        return true;
    }
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => match embedded_v4(address) {
            Some(inner) => reachable(inner.into(), allowed),
            None => is_public_v6(address),
        },
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let reserved = a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !(reserved
        || address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_documentation())
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    // Global unicast is 2000::/3, without the documentation networks and the special-purpose 2001::/23.
    let [first, second, ..] = address.segments();
    first >> 13 == 1 && !(first == 0x2001 && (second == 0x0db8 || second < 0x0200)) && first != 0x3fff
}

/// The IPv4 address embedded in an IPv6 address: mapped, compatible, translated or tunnelled.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let v4 = |high: u16, low: u16| Ipv4Addr::from(u32::from(high) << 16 | u32::from(low));
    match segments {
        [0, 0, 0, 0, 0, 0xffff, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some(v4(high, low)),
        [0, 0, 0, 0, 0, 0, high, low]
            if address != Ipv6Addr::LOCALHOST && address != Ipv6Addr::UNSPECIFIED =>
        {
            Some(v4(high, low))
        }
        [0x2002, high, low, ..] => Some(v4(high, low)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use tidegate_testing::chaos_proxy::{ChaosProxy, Fault};

    use super::*;

    #[test]
    fn only_public_addresses_are_reached() {
        for address in
            ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "::ffff:1.1.1.1", "64:ff9b::1.1.1.1"]
        {
            assert!(reachable(address.parse().unwrap(), &[]), "{address}");
        }
        for address in [
            "0.0.0.0",
            "10.1.2.3",
            "127.0.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "192.168.1.1",
            "100.64.0.1",
            "192.0.0.8",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "2001:db8::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::10.0.0.1",
            "2002:7f00:1::",
            "::127.0.0.1",
            "2001::1",
            "3fff::1",
        ] {
            assert!(!reachable(address.parse().unwrap(), &[]), "{address}");
        }
        let allowed = ["127.0.0.0/8".parse().unwrap()];
        assert!(reachable("127.0.0.1".parse().unwrap(), &allowed));
        assert!(reachable("::ffff:127.0.0.1".parse().unwrap(), &allowed));
        assert!(!reachable("10.0.0.1".parse().unwrap(), &allowed));
    }

    /// DNS rebinding: the address that is checked is the one that is connected to.
    #[tokio::test]
    async fn a_name_that_leads_home_is_not_followed() {
        use tower::Service;
        let resolve = |reach, allowed: &[IpNet]| {
            Resolver { reach, allowed: allowed.into() }.call("localhost".parse().unwrap())
        };
        let refused = resolve(Reach::Public, &[]).await.unwrap_err().to_string();
        assert!(refused.contains("not a public address"), "{refused}");
        let home = |mut found: std::vec::IntoIter<SocketAddr>| found.all(|found| found.ip().is_loopback());
        assert!(home(resolve(Reach::Any, &[]).await.unwrap()));
        let allowed = ["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
        assert!(home(resolve(Reach::Public, &allowed).await.unwrap()));
    }

    #[test]
    fn addresses_are_looked_at_before_anything_is_sent() {
        let outbound = OutboundHttp::new(&OutboundSettings {
            timeout: Duration::from_secs(1),
            ..OutboundSettings::default()
        })
        .unwrap();
        let check = |url: &str| outbound.check(&url.parse().unwrap());
        assert_eq!(check("https://shop.example/hooks?a=b"), Ok(()));
        for url in [
            "ftp://shop.example/",
            "https://u:p@shop.example/",
            "http://127.0.0.1/",
            "http://[::1]:80/",
            "http://localhost/",
            "http://[::ffff:10.0.0.1]/",
            "/path",
        ] {
            assert!(check(url).is_err(), "{url}");
        }
    }

    /// A kept connection may have fallen silent: the request that meets the silence times out, the next one does not.
    #[tokio::test]
    async fn a_connection_that_timed_out_is_not_used_again() {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = ChaosProxy::start(listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    while stream.read(&mut [0; 4096]).await.is_ok_and(|read| read > 0) {
                        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
                    }
                });
            }
        });
        let timeout = Duration::from_millis(500);
        let outbound =
            OutboundHttp::new(&OutboundSettings { timeout, ..OutboundSettings::default() }).unwrap();
        let url = format!("http://127.0.0.1:{}/", proxy.port());
        let post = async || outbound.post(Reach::Any, &url, &[], String::new()).await;
        assert_eq!(post().await.unwrap().status, 204);
        assert_eq!(post().await.unwrap().status, 204);
        assert_eq!(proxy.accepted(), 1, "the connection is kept");
        proxy.set_open(Fault::Stall);
        assert!(matches!(post().await, Err(OutboundError::Timeout(_))));
        assert_eq!(post().await.unwrap().status, 204);
        assert_eq!(proxy.accepted(), 2);
    }
}
