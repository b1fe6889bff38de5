//! The signed-in buyer.

use axum::Json;
use axum::extract::State;
use tidegate_http::Site;
use tidegate_http::input::Buyer;
use tidegate_http::problem::Problem;

use crate::accounts::json::UserShape;

/// Get the signed-in buyer.
///
/// `phone` and `name` are absent for a buyer without an account, for example one identified by a JWT.
#[utoipa::path(get, path = "/v1/me", tag = "buyers", security(("bearer" = [])),
    responses((status = 200, body = UserShape), (status = 401, body = Problem)))]
pub(crate) async fn me(State(site): State<Site>, Buyer(user): Buyer) -> Result<Json<UserShape>, Problem> {
    let account = site.app.accounts.account_of(user).await?;
    let (phone, name) = account.map(|account| (account.phone, account.name)).unzip();
    Ok(Json(UserShape { id: site.app.print(user), phone, name }))
}
