//! The page: four files that are part of the program and load nothing from other sites.

use crate::serve::run::service::Service;
use axum::Router;
use axum::http::header;
use axum::routing::get;
use std::sync::Arc;

/// What browsers may do with every response of the service.
pub(super) const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob: data:; \
                          connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the page.
pub(super) fn routes() -> Router<Arc<Service>> {
    let file = |kind: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, kind)], text) })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", include_str!("page/index.html")))
        .route("/app.js", file("text/javascript; charset=utf-8", include_str!("page/app.js")))
        .route("/plots.js", file("text/javascript; charset=utf-8", include_str!("page/plots.js")))
        .route("/style.css", file("text/css; charset=utf-8", include_str!("page/style.css")))
}
