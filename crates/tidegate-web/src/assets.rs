//! Static files: styles, scripts and the icon. Compiled into the binary and cached under a versioned path.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tidegate_app::digest::{short_digest, token};
use tidegate_core::Rejection;
use tidegate_http::problem::Problem;

const JS: &str = "text/javascript; charset=utf-8";

/// Name, content type and content.
const FILES: &[(&str, &str, &str)] = &[
    ("tidegate.css", "text/css; charset=utf-8", include_str!("../assets/tidegate.css")),
    ("console.css", "text/css; charset=utf-8", include_str!("../assets/console.css")),
    ("records.css", "text/css; charset=utf-8", include_str!("../assets/records.css")),
    ("console.js", JS, include_str!("../assets/console.js")),
    ("icon.svg", "image/svg+xml", include_str!("../assets/icon.svg")),
    ("page.js", JS, include_str!("../assets/page.js")),
    ("sale.js", JS, include_str!("../assets/sale.js")),
    ("pass.js", JS, include_str!("../assets/pass.js")),
    ("proof_of_work.js", JS, include_str!("../assets/proof_of_work.js")),
    ("sha256.js", JS, include_str!("../assets/sha256.js")),
    ("order.js", JS, include_str!("../assets/order.js")),
    ("draw.js", JS, include_str!("../assets/draw.js")),
    ("verify.js", JS, include_str!("../assets/verify.js")),
];

/// Digest of all files, so that a script never imports a module of another version.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let contents: Vec<&[u8]> = FILES.iter().map(|(_, _, text)| text.as_bytes()).collect();
    token("", &short_digest(&contents)[..8])
});

/// Path of a file, including the version.
pub(crate) fn url(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// Any version is answered with the current file, but only the current version may be cached.
pub(crate) async fn asset(Path((version, name)): Path<(String, String)>) -> Result<Response, Problem> {
    let (_, content_type, text) =
        FILES.iter().find(|(known, ..)| *known == name).ok_or(Rejection::NotFound)?;
    let cache_control = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-cache" };
    Ok(([(header::CONTENT_TYPE, *content_type), (header::CACHE_CONTROL, cache_control)], *text)
        .into_response())
}
