//! Endpoints of a campaign's lifecycle; sales and draws differ only in path and response.

/// Defines one endpoint per step: its name, its path and its `Step`. `$id` is the type of the id in the path,
/// `$shape` the response body, and `$apply_step` the function that applies the step.
macro_rules! transitions {
    ($id:ty, $shape:ty, $apply_step:path; $($(#[$doc:meta])* $name:ident $path:literal $step:expr;)*) => {$(
        $(#[$doc])*
        #[utoipa::path(post, path = $path, tag = "operators", params(("id" = String, Path)), security(("bearer" = [])),
            responses((status = 200, body = $shape), (status = 401, body = Problem), (status = 403, body = Problem),
                      (status = 404, body = Problem), (status = 409, body = Problem)))]
        pub(crate) async fn $name(
            State(site): State<Site>,
            operator: Operator,
            Id(id): Id<$id>,
        ) -> Result<Json<$shape>, Problem> {
            let step: fn(&Site) -> Step = $step;
            $apply_step(&site, operator, id, step(&site)).await
        }
    )*};
}

pub(crate) use transitions;
