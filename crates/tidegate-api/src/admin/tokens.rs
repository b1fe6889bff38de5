//! Buyers for load tests.

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};
use tidegate_app::buyers::{MAX_TEST_TOKENS, TOKENS_SCOPE};
use tidegate_http::Site;
use tidegate_http::input::{Input, Operator, OperatorIdempotencyKey};
use tidegate_http::inputs::Checks;
use tidegate_http::problem::Problem;
use utoipa::ToSchema;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TokensInput {
    #[schema(example = 100, minimum = 1, maximum = 100_000)]
    count: i64,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct TokensShape {
    tokens: Vec<String>,
}

/// Create buyers for a load test.
///
/// Answers `403` unless the configuration allows it.
#[utoipa::path(post, path = "/v1/admin/tokens", operation_id = "mint", tag = "operators",
    request_body = TokensInput, params(("Idempotency-Key" = Option<String>, Header)), security(("bearer" = [])),
    responses((status = 201, body = TokensShape), (status = 401, body = Problem), (status = 403, body = Problem),
              (status = 422, body = Problem)))]
pub(crate) async fn create_test_buyers(
    State(site): State<Site>,
    operator: Operator,
    key: OperatorIdempotencyKey,
    input: Input<TokensInput>,
) -> Result<Response, Problem> {
    let mut checks = Checks::default();
    let count = checks.number("count", input.value.count, 1, MAX_TEST_TOKENS);
    let count = checks.finish(Some(count))?;
    let idempotent_request = key.into_request(TOKENS_SCOPE, "", input.fingerprint);
    let app = site.app.clone();
    let tokens = site
        .run_to_completion(async move {
            app.accounts.mint_tokens(count, operator.0.actor(), idempotent_request).await
        })
        .await?;
    Ok((StatusCode::CREATED, Json(TokensShape { tokens })).into_response())
}
