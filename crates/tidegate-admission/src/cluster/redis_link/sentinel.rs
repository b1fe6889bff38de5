//! The primary as the sentinels know it. They are asked anew for every connection, over new connections: one that was
//! kept could have fallen silent.

use redis::io::tcp::TcpSettings;
use redis::sentinel::{Sentinel, SentinelNodeConnectionInfo};
use redis::{Client, ErrorKind, RedisConnectionInfo, RedisError, RedisResult};

use super::with_tcp_settings;

pub(super) struct Sentinels {
    /// `redis://host:port` of each sentinel.
    urls: Vec<String>,
    name: String,
    primary: SentinelNodeConnectionInfo,
}

impl Sentinels {
    /// Parses `host:26379,host:26379/name`, optionally preceded by `user:password@` for the primary.
    pub(super) fn parse(rest: &str, tcp: TcpSettings) -> RedisResult<Self> {
        let invalid = || {
            RedisError::from((
                ErrorKind::InvalidClientConfig,
                "a sentinel URL must have the form redis+sentinel://host:port,host:port/name",
            ))
        };
        let (hosts, name) = rest.rsplit_once('/').filter(|(_, name)| !name.is_empty()).ok_or_else(invalid)?;
        let (login, hosts) =
            hosts.rsplit_once('@').map_or((None, hosts), |(login, hosts)| (Some(login), hosts));
        let mut primary = SentinelNodeConnectionInfo::default().set_tcp_settings(tcp);
        if let Some(login) = login {
            let (user, password) = login.split_once(':').unwrap_or(("", login));
            let info = RedisConnectionInfo::default().set_password(password);
            let info = if user.is_empty() { info } else { info.set_username(user) };
            primary = primary.set_redis_connection_info(info);
        }
        let urls: Vec<String> = hosts.split(',').map(|host| format!("redis://{}", host.trim())).collect();
        let sentinels = Self { urls, name: name.to_owned(), primary };
        sentinels.client()?;
        Ok(sentinels)
    }

    fn client(&self) -> RedisResult<Sentinel> {
        let infos = self.urls.iter().map(|url| with_tcp_settings(url)).collect::<RedisResult<_>>()?;
        Sentinel::build(infos)
    }

    /// A new client of the primary.
    pub(super) async fn find_primary(&self) -> RedisResult<Client> {
        self.client()?.async_master_for(&self.name, Some(&self.primary)).await
    }
}
