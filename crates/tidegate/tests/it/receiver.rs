//! An HTTP server that receives webhooks and coupon requests and answers as a test specifies.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tidegate_testing::eventually;
use tokio::net::TcpListener;

#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Got {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Whether the signature verifies with the Standard Webhooks library.
    pub(crate) fn verifies(&self, secret: &str) -> bool {
        standardwebhooks::Webhook::new(secret).unwrap().verify(&self.body, &self.headers).is_ok()
    }
}

/// The answer of the receiver; `Hang` sends none.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    Status(u16),
    Json(&'static str),
    Redirect(String),
    RetryAfter(&'static str),
    /// 200, after this time.
    Late(Duration),
    Hang,
}

type Choose = dyn Fn(&Got, usize) -> Reply + Send + Sync;

#[derive(Clone)]
pub(crate) struct Receiver {
    pub(crate) address: SocketAddr,
    got: Arc<Mutex<Vec<(Got, u16)>>>,
    busy: Arc<Busy>,
}

/// How many requests are being answered, the most there have been at once, and how many connections were made.
#[derive(Default)]
struct Busy {
    now: AtomicUsize,
    most: AtomicUsize,
    connections: AtomicUsize,
}

/// Counts one request as long as it lives, also if its connection breaks.
struct Counted(Arc<Busy>);

impl Counted {
    fn one(busy: &Arc<Busy>) -> Self {
        let now = busy.now.fetch_add(1, Ordering::SeqCst) + 1;
        busy.most.fetch_max(now, Ordering::SeqCst);
        Self(busy.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Receiver {
    /// `choose` gets the request and the number of earlier ones, and returns the answer.
    pub(crate) async fn start(choose: impl Fn(&Got, usize) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver =
            Self { address: listener.local_addr().unwrap(), got: Arc::default(), busy: Arc::default() };
        let (got, choose): (_, Arc<Choose>) = (receiver.got.clone(), Arc::new(choose));
        let busy = receiver.busy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (got, choose, busy) = (got.clone(), choose.clone(), busy.clone());
                busy.connections.fetch_add(1, Ordering::SeqCst);
                let service = service_fn(move |request| {
                    let counted = Counted::one(&busy);
                    let answering = answer(request, got.clone(), choose.clone());
                    async move {
                        let _counted = counted;
                        answering.await
                    }
                });
                // Errors of a connection are ignored: the sender may disconnect.
                tokio::spawn(
                    hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        receiver
    }

    /// Starts a receiver that answers every request with 200, over TLS.
    pub(crate) async fn start_tls(made: &rcgen::CertifiedKey<rcgen::KeyPair>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let receiver =
            Self { address: listener.local_addr().unwrap(), got: Arc::default(), busy: Arc::default() };
        let got = receiver.got.clone();
        let key = rustls::pki_types::PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (got, acceptor) = (got.clone(), acceptor.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let choose: Arc<Choose> = Arc::new(|_, _| Reply::Status(200));
                    let service = service_fn(move |request| answer(request, got.clone(), choose.clone()));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        receiver
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/hooks", self.address)
    }

    /// All requests, with the status of the answer.
    pub(crate) fn all(&self) -> Vec<(Got, u16)> {
        self.got.lock().clone()
    }

    /// The most requests that there have been at once.
    pub(crate) fn most_at_once(&self) -> usize {
        self.busy.most.load(Ordering::SeqCst)
    }

    /// Number of connections that were made.
    pub(crate) fn connections(&self) -> usize {
        self.busy.connections.load(Ordering::SeqCst)
    }

    /// Number of requests.
    pub(crate) fn count(&self) -> usize {
        self.got.lock().len()
    }

    /// Requests answered with 2xx.
    pub(crate) fn taken(&self) -> Vec<Got> {
        self.all().into_iter().filter(|(_, status)| (200..300).contains(status)).map(|(got, _)| got).collect()
    }

    /// Waits until `count` requests were answered with 2xx.
    pub(crate) async fn wait_for(&self, count: usize) -> Vec<Got> {
        eventually(&format!("{count} requests are answered with 2xx"), async || {
            let taken = self.taken();
            if taken.len() >= count { Ok(taken) } else { Err(taken.len()) }
        })
        .await
    }
}

async fn answer(
    request: Request<Incoming>,
    got: Arc<Mutex<Vec<(Got, u16)>>>,
    choose: Arc<Choose>,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    let (parts, body) = request.into_parts();
    let came = Got {
        path: parts.uri.path().to_owned(),
        headers: parts.headers,
        body: body.collect().await?.to_bytes(),
    };
    let before = got.lock().len();
    let reply = choose(&came, before);
    let mut response = Response::new(Full::default());
    let (status, header, body) = match &reply {
        Reply::Status(status) => (*status, None, ""),
        Reply::Json(body) => (200, None, *body),
        Reply::Redirect(to) => (302, Some(("location", to.clone())), ""),
        Reply::RetryAfter(seconds) => (503, Some(("retry-after", (*seconds).to_owned())), ""),
        Reply::Late(_) => (200, None, ""),
        Reply::Hang => (0, None, ""),
    };
    got.lock().push((came, status));
    if let Reply::Late(after) = reply {
        tokio::time::sleep(after).await;
    }
    if status == 0 {
        tokio::time::sleep(Duration::from_secs(600)).await;
    }
    *response.status_mut() = status.try_into().unwrap();
    if let Some((name, value)) = header {
        response.headers_mut().insert(name, value.parse().unwrap());
    }
    *response.body_mut() = Full::new(Bytes::from_static(body.as_bytes()));
    Ok(response)
}
