//! What each kind of job does.

pub(super) mod evaluate;
pub(super) mod fit;
pub(super) mod loss;
pub(super) mod sample;
pub(super) mod simulate;
