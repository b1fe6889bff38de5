//! The first page: that it runs, and where to go from here.

use axum::Extension;
use axum::response::Html;

use super::browser::Nonce;

pub(super) async fn home(Extension(Nonce(nonce)): Extension<Nonce>) -> Html<String> {
    Html(format!(
        r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tidegate</title>
<link rel="icon" href="data:,">
<style nonce="{nonce}">
  :root {{ color-scheme: light dark; font: 1.1rem/1.6 system-ui, sans-serif; background: Canvas; color: CanvasText; }}
  body {{ max-width: 36rem; margin: 15vh auto 0; padding: 0 1.5rem; }}
  h1 {{ font-size: 2rem; margin: 0; }}
  ul {{ list-style: none; padding: 0; }}
  li {{ display: flex; gap: 1rem; padding: .5rem 0; border-top: 1px solid color-mix(in srgb, currentColor 20%, transparent); }}
  a {{ min-width: 9rem; }}
</style>
</head>
<body>
<main>
<h1>Tidegate is running</h1>
<p>Every unit sold exactly once.</p>
<ul>
<li><a href="/v1/sales">Sales</a> what can be bought, as JSON</li>
<li><a href="/v1/draws">Draws</a> what can be played, as JSON</li>
<li><a href="/docs/">API docs</a> every call, to try out</li>
<li><a href="/readyz">Readiness</a> whether orders are taken</li>
<li><a href="/metrics">Metrics</a> for Prometheus</li>
</ul>
</main>
</body>
</html>
"#
    ))
}
