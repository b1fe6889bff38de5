//! The transitions of a campaign's lifecycle as endpoints: the same for sales and draws but for the path.

/// One endpoint per step: its name, its address, its step. `$id` is what the address carries, `$shape` what is
/// answered, `$take` takes the step.
macro_rules! transitions {
    ($id:ty, $shape:ty, $take:path; $($(#[$doc:meta])* $name:ident $path:literal $step:expr;)*) => {$(
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
            $take(&site, operator, id, step(&site)).await
        }
    )*};
}

pub(crate) use transitions;
