//! What handlers of axum may ask for: who sent the request, and what is left to them.

use axum_core::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::service::{Allowed, Client};

/// The layer is not around this handler, or was told to tell nothing.
const NO_LAYER: &str = "`ThresholdLayer` is not around this handler, or has no extensions";

impl<S: Send + Sync> FromRequestParts<S> for Client {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.get().cloned().ok_or((StatusCode::INTERNAL_SERVER_ERROR, NO_LAYER))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Allowed {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        parts.extensions.get().cloned().ok_or((StatusCode::INTERNAL_SERVER_ERROR, NO_LAYER))
    }
}
