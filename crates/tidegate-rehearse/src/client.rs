//! A small HTTP/1.1 client with one keep-alive connection. After a failure it connects to the next node, if there are
//! several.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{HeaderMap, Method, Request, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;

/// Request timeout; longer than the server takes for any response.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub struct Client {
    hosts: Vec<String>,
    /// Index of the current host.
    at: usize,
    token: Option<String>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or(Value::Null)
    }

    /// The problem code; empty if the response is not a problem.
    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or("").to_owned()
    }
}

impl Client {
    /// `urls`: one server, or the nodes of a cluster separated by commas.
    pub fn new(urls: &str, token: Option<&str>) -> anyhow::Result<Self> {
        let host = |url: &str| {
            let host = url.trim().strip_prefix("http://").context("the URL must begin with http://")?;
            Ok(host.trim_end_matches('/').to_owned())
        };
        let hosts = urls.split(',').map(host).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self { hosts, at: 0, token: token.map(str::to_owned), connection: None })
    }

    /// Selects the initial node by the client's number, so that many clients are spread over the nodes.
    #[must_use]
    pub fn spread(mut self, number: usize) -> Self {
        self.at = number % self.hosts.len();
        self
    }

    fn host(&self) -> &str {
        &self.hosts[self.at]
    }

    pub fn token(&self) -> &str {
        self.token.as_deref().unwrap_or("")
    }

    pub async fn get(&mut self, path: &str) -> anyhow::Result<Answer> {
        self.send(Method::GET, path, None, None).await
    }

    pub async fn post(&mut self, path: &str, body: &Value) -> anyhow::Result<Answer> {
        self.send(Method::POST, path, Some(body.to_string()), None).await
    }

    /// Sends a request; fails unless the response has the expected status.
    pub async fn expect(
        &mut self,
        status: u16,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> anyhow::Result<Value> {
        let answer = self.send(method.clone(), path, body.map(Value::to_string), None).await?;
        if answer.status != status {
            let said = String::from_utf8_lossy(&answer.body);
            bail!("{method} {path}: status {} instead of {status}: {said}", answer.status);
        }
        Ok(answer.json())
    }

    /// Sends a request with another token over the same connection.
    pub async fn send_as(
        &mut self,
        token: &str,
        method: Method,
        path: &str,
        body: Option<String>,
        key: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let mut request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.host())
            .header(header::AUTHORIZATION, format!("Bearer {token}"));
        if body.is_some() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        self.exchange(request.body(Full::new(body.unwrap_or_default().into()))?).await
    }

    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Option<String>,
        key: Option<&str>,
    ) -> anyhow::Result<Answer> {
        let token = self.token.clone().unwrap_or_default();
        self.send_as(&token, method, path, body, key).await
    }

    /// Sends a request. After a failure the connection is dropped, and the next request goes to the next node.
    pub async fn exchange(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let answer = tokio::time::timeout(ANSWER_WITHIN, self.exchanged(request)).await;
        let answer = answer.unwrap_or_else(|_| bail!("{} did not answer in time", self.host()));
        if answer.is_err() {
            self.connection = None;
            self.at = (self.at + 1) % self.hosts.len();
        }
        answer
    }

    async fn exchanged(&mut self, request: Request<Full<Bytes>>) -> anyhow::Result<Answer> {
        let mut connection = match self.connection.take() {
            Some(connection) if !connection.is_closed() => connection,
            _ => self.connect().await?,
        };
        connection.ready().await?;
        let response = connection.send_request(request).await?;
        let (parts, body) = response.into_parts();
        let body = body.collect().await?.to_bytes();
        self.connection = Some(connection);
        Ok(Answer { status: parts.status.as_u16(), headers: parts.headers, body })
    }

    async fn connect(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let host = self.host();
        let stream = TcpStream::connect(host).await.with_context(|| format!("cannot connect to {host}"))?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(async move {
            // If the connection fails, the next request reports it.
            let _ = connection.await;
        });
        Ok(sender)
    }
}
