// `backward` has written ∂/∂W itself: there are no workgroups for it.
fn add_splits(at: u32) {}
