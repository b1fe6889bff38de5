//! Builds the site, API and pages, from the configuration.

use std::sync::Arc;
use std::time::Duration;

use tidegate_api::HotRoutes;
use tidegate_app::App;
use tidegate_http::input::Bounds;
use tidegate_http::limits::{LimitSettings, Limits};
use tidegate_http::{Settings, Site};

use crate::config::{Config, networks};

/// All routes. Loading the configuration has validated the networks.
pub fn hot_routes(app: Arc<App>, config: &Config) -> HotRoutes {
    let (http, limits) = (&config.http, &config.limits);
    let bounds = Bounds {
        max_body_bytes: http.max_body_bytes,
        max_draw_bytes: http.max_draw_bytes,
        body_timeout: Duration::from_millis(http.body_timeout_ms),
    };
    let limits = Limits::new(LimitSettings {
        per_address_per_s: limits.per_address_per_s,
        per_address_burst: limits.per_address_burst,
        auth_per_address_per_min: limits.auth_per_address_per_min,
        exempt: networks(&limits.exempt).unwrap_or_default(),
        trusted_proxies: networks(&http.trusted_proxies).unwrap_or_default(),
    });
    let settings = Settings { bounds, limits };
    let site = Site::new(app, settings, tidegate_web::error_page);
    tidegate_api::hot_routes(site, tidegate_web::routes(), http.hot_routes)
}
