// φ(ρ) = g with g = (1 + 2ρ)^−½: the derivatives are −g³, 3g⁵, −15g⁷, 105g⁹.
fn profile(rho: f32) -> Phi {
    let square = 1.0 / (1.0 + rho + rho);
    let p0 = sqrt(square);
    let p1 = -p0 * square;
    let p2 = -3.0 * p1 * square;
    let p3 = -5.0 * p2 * square;
    return Phi(p0, p1, p2, p3, -7.0 * p3 * square);
}
