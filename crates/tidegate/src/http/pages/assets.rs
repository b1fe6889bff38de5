//! The few files that pages load: styles, scripts, the icon. Compiled in, and cached for ever under a version of theirs.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use tidegate_core::Rejection;

use super::super::problem::Problem;
use crate::chance::{short_digest, token};

const JS: &str = "text/javascript; charset=utf-8";

/// Each file with its kind.
const FILES: &[(&str, &str, &str)] = &[
    ("tidegate.css", "text/css; charset=utf-8", include_str!("../../../assets/tidegate.css")),
    ("console.css", "text/css; charset=utf-8", include_str!("../../../assets/console.css")),
    ("office.css", "text/css; charset=utf-8", include_str!("../../../assets/office.css")),
    ("console.js", JS, include_str!("../../../assets/console.js")),
    ("icon.svg", "image/svg+xml", include_str!("../../../assets/icon.svg")),
    ("page.js", JS, include_str!("../../../assets/page.js")),
    ("sale.js", JS, include_str!("../../../assets/sale.js")),
    ("pass.js", JS, include_str!("../../../assets/pass.js")),
    ("work.js", JS, include_str!("../../../assets/work.js")),
    ("sha256.js", JS, include_str!("../../../assets/sha256.js")),
    ("order.js", JS, include_str!("../../../assets/order.js")),
    ("draw.js", JS, include_str!("../../../assets/draw.js")),
    ("verify.js", JS, include_str!("../../../assets/verify.js")),
];

/// Changes when any of them does, so that scripts always load the ones they were written with.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let contents: Vec<&[u8]> = FILES.iter().map(|(_, _, text)| text.as_bytes()).collect();
    token("", &short_digest(&contents)[..8])
});

/// Where one of them is.
pub(in crate::http) fn address(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// Whatever version is asked for gets the current one, but only the right one may be kept.
pub(super) async fn asset(Path((version, name)): Path<(String, String)>) -> Result<Response, Problem> {
    let (_, kind, text) = FILES.iter().find(|(known, ..)| *known == name).ok_or(Rejection::NotFound)?;
    let keep = if version == *VERSION { "public, max-age=31536000, immutable" } else { "no-cache" };
    Ok(([(header::CONTENT_TYPE, *kind), (header::CACHE_CONTROL, keep)], *text).into_response())
}
