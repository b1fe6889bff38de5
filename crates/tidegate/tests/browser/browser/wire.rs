//! Commands of chromedriver beyond WebDriver: the Chrome DevTools Protocol and the browser's log.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use fantoccini::error::CmdError;
use fantoccini::wd::WebDriverCompatibleCommand;
use hyper::Method;
use serde_json::{Value, json};
use url::{ParseError, Url};

use super::Browser;

/// A POST to a path below the path of the session.
#[derive(Debug)]
struct Post {
    path: &'static str,
    body: Value,
}

impl WebDriverCompatibleCommand for Post {
    fn endpoint(&self, base: &Url, session: Option<&str>) -> Result<Url, ParseError> {
        base.join(&format!("session/{}/{}", session.unwrap_or(""), self.path))
    }

    fn method_and_body(&self, _: &Url) -> (Method, Option<String>) {
        (Method::POST, Some(self.body.to_string()))
    }
}

impl Browser {
    /// Sends a command of the Chrome DevTools Protocol.
    pub(super) async fn devtools(&self, command: &str, parameters: Value) -> Result<Value, CmdError> {
        let body = json!({"cmd": command, "params": parameters});
        self.client.issue_cmd(Post { path: "goog/cdp/execute", body }).await
    }

    /// The browser's log entries since the last call.
    pub(super) async fn log(&self) -> Result<Vec<Value>, CmdError> {
        let body = json!({"type": "browser"});
        let log = self.client.issue_cmd(Post { path: "se/log", body }).await?;
        Ok(log.as_array().cloned().unwrap_or_default())
    }
}

/// Ends a browser, without a runtime. Errors are ignored: the driver ends remaining browsers when it stops.
pub(super) fn end_session(port: u16, session: &str) {
    let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let request =
        format!("DELETE /session/{session} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let _ = stream.write_all(request.as_bytes()).and_then(|()| stream.read(&mut [0; 64]));
}
