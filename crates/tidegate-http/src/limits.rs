//! Rate limits per client address, and trusted proxies.
//!
//! Invariants: the client address is the connection's peer address, unless the peer is a trusted proxy; X-Forwarded-For
//! from any other peer is ignored. A refusal happens before any session lookup, body or cryptography.

use std::net::{IpAddr, Ipv6Addr};
use std::time::{Duration, Instant};

use axum::http::{HeaderName, Method};
use ipnet::IpNet;
use tidegate_app::buckets::{Buckets, Exhausted, Rate, Taken};

use super::headers::Headers;
use super::input::Peer;

/// Endpoints with the stricter limit: they can be used to guess secrets, or each call costs money.
const SENSITIVE: [&str; 2] = ["/v1/auth/", "/v1/admin/login"];
/// Forms with the stricter limit; it applies to submitting them, not to viewing them.
const FORMS: [&str; 2] = ["/sign-in", "/console/sign-in"];
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const LIMIT: HeaderName = HeaderName::from_static("ratelimit-limit");
const REMAINING: HeaderName = HeaderName::from_static("ratelimit-remaining");
const RESET: HeaderName = HeaderName::from_static("ratelimit-reset");
const MINUTE: Duration = Duration::from_secs(60);

/// Limits as configured.
#[derive(Clone, Debug)]
pub struct LimitSettings {
    pub per_address_per_s: u32,
    pub per_address_burst: u32,
    pub auth_per_address_per_min: u32,
    pub exempt: Vec<IpNet>,
    pub trusted_proxies: Vec<IpNet>,
}

#[derive(Debug)]
pub struct Limits {
    all: Option<Rate>,
    sensitive: Option<Rate>,
    buckets: Buckets,
    exempt: Vec<IpNet>,
    trusted: Vec<IpNet>,
}

impl Limits {
    pub fn new(settings: LimitSettings) -> Self {
        let all = Rate::per_second(settings.per_address_per_s);
        Self {
            all: all.map(|rate| rate.with_burst(settings.per_address_burst)),
            sensitive: Rate::per(MINUTE, settings.auth_per_address_per_min),
            buckets: Buckets::default(),
            exempt: settings.exempt,
            trusted: settings.trusted_proxies,
        }
    }

    /// The last address in the X-Forwarded-For chain that is not a trusted proxy.
    fn client_address(&self, peer: IpAddr, headers: Headers<'_>) -> IpAddr {
        let trusted = |address: &IpAddr| self.trusted.iter().any(|network| network.contains(address));
        if !trusted(&peer) {
            return peer;
        }
        let name = FORWARDED_FOR;
        let chain = headers.all(&name).flatten();
        let chain: Vec<IpAddr> =
            chain.flat_map(|value| value.split(',')).filter_map(|part| part.trim().parse().ok()).collect();
        chain.into_iter().rev().find(|address| !trusted(address)).unwrap_or(peer)
    }

    /// The client of a request from this peer: the peer itself, or the one a trusted proxy names.
    pub fn client<'a>(&self, peer: Peer, headers: impl Into<Headers<'a>>) -> Peer {
        Peer(self.client_address(peer.0, headers.into()))
    }

    /// Counts a request of this client against the limits that apply to its path.
    pub fn count(
        &self,
        Peer(client): Peer,
        method: &Method,
        path: &str,
        received: Instant,
    ) -> Result<Option<Taken>, Exhausted> {
        if self.exempt.iter().any(|network| network.contains(&client)) {
            return Ok(None);
        }
        let is_sensitive = SENSITIVE.iter().any(|prefix| path.starts_with(prefix))
            || (!method.is_safe() && FORMS.contains(&path));
        let mut left = None;
        for (rate, strict) in [(self.all, false), (self.sensitive.filter(|_| is_sensitive), true)] {
            if let Some(rate) = rate {
                left = Some(self.buckets.take((bucket_of(client), strict), rate, received)?);
            }
        }
        Ok(left)
    }
}

/// The /64 network of an IPv6 address shares a bucket: a single client owns all of it.
pub fn bucket_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => {
            let network = u128::from(six) >> 64 << 64;
            IpAddr::V6(Ipv6Addr::from(network))
        }
    }
}

/// Calls `write` with each `RateLimit-*` header and its value.
pub fn for_each_header(left: Option<Taken>, mut write: impl FnMut(HeaderName, u32)) {
    if let Some(Taken { of, left }) = left {
        write(LIMIT, of);
        write(REMAINING, left);
        write(RESET, 1);
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderMap, HeaderValue};

    use super::*;

    fn limits(trusted: &str) -> Limits {
        let buckets = Buckets::default();
        Limits {
            all: None,
            sensitive: None,
            buckets,
            exempt: vec![],
            trusted: trusted.split(',').filter_map(|text| text.parse().ok()).collect(),
        }
    }

    fn forwarded(value: &str) -> HeaderMap {
        HeaderMap::from_iter([("x-forwarded-for".parse().unwrap(), HeaderValue::from_str(value).unwrap())])
    }

    #[test]
    fn strangers_cannot_speak_for_others() {
        let peer: IpAddr = "203.0.113.9".parse().unwrap();
        assert_eq!(limits("").client(Peer(peer), &forwarded("198.51.100.1")).0, peer);
        assert_eq!(limits("10.0.0.0/8").client(Peer(peer), &forwarded("198.51.100.1")).0, peer);
    }

    #[test]
    fn a_trusted_proxy_speaks_for_the_last_stranger_in_the_chain() {
        let proxy: IpAddr = "10.0.0.1".parse().unwrap();
        let client = |chain: &str| limits("10.0.0.0/8").client(Peer(proxy), &forwarded(chain)).0.to_string();
        assert_eq!(client("198.51.100.1"), "198.51.100.1");
        assert_eq!(
            client("6.6.6.6, 198.51.100.1, 10.0.0.2"),
            "198.51.100.1",
            "what the client made up comes first"
        );
        assert_eq!(client("nonsense"), "10.0.0.1");
    }

    #[test]
    fn a_network_of_ipv6_addresses_shares_a_bucket() {
        let bucket = |text: &str| bucket_of(text.parse().unwrap());
        assert_eq!(bucket("2001:db8::1"), bucket("2001:db8::ffff:2"));
        assert_ne!(bucket("2001:db8::1"), bucket("2001:db8:0:1::1"));
    }
}
