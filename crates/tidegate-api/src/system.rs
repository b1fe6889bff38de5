//! Liveness, readiness and metrics.

use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::json;
use tidegate_core::ProblemCode;
use tidegate_http::Site;
use tidegate_http::problem::Problem;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub(super) fn routes() -> OpenApiRouter<Site> {
    OpenApiRouter::new().routes(routes!(healthz)).routes(routes!(readyz)).routes(routes!(metrics))
}

/// Check liveness.
///
/// Answers `200` while the process can serve requests.
#[utoipa::path(get, path = "/healthz", tag = "system", responses((status = 200, body = String)))]
async fn healthz() -> &'static str {
    "ok"
}

/// Check readiness.
///
/// `200` while the server accepts orders; otherwise `503`, with each failing part and its error in `detail`.
#[utoipa::path(get, path = "/readyz", tag = "system",
    responses((status = 200, body = serde_json::Value), (status = 503, body = Problem)))]
async fn readyz(State(site): State<Site>) -> Response {
    let problems = site.app.health.problems();
    if problems.is_empty() {
        return Json(json!({"status": "ready"})).into_response();
    }
    let detail =
        problems.iter().map(|(part, problem)| format!("{part}: {problem}")).collect::<Vec<_>>().join("; ");
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, ProblemCode::NotReady, detail).into_response()
}

/// Get metrics in the OpenMetrics format, for Prometheus.
#[utoipa::path(get, path = "/metrics", tag = "system", responses((status = 200, body = String)))]
async fn metrics(State(site): State<Site>) -> Response {
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    ([(header::CONTENT_TYPE, kind)], site.app.node.print_metrics()).into_response()
}
