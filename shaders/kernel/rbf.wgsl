// φ(ρ) = exp(−η ρ): the n-th derivative is (−η)ⁿ φ. Serves the tilted RBF too: the tilt never reaches the pairs.
fn profile(rho: f32) -> Phi {
    let minus = -job.decay;
    let p0 = exp(minus * rho);
    let p1 = minus * p0;
    let p2 = minus * p1;
    let p3 = minus * p2;
    return Phi(p0, p1, p2, p3, minus * p3);
}
