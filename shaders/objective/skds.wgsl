// SKDS, "simple closed form" of the paper divided by 4: T = φ v − ½ φ' g − ¼ φ' tr a² − ¼ φ'' m, and the linear part
// of a kernel adds (1 + ⟨x, y⟩) v + ½ (rest + rest') + ¼ tr a². See src/objective/skds.rs.

fn term(phi: Phi, dots: Dots) -> f32 {
    var sum = phi.p0 * dots.v - 0.5 * phi.p1 * dots.g - 0.25 * (phi.p1 * dots.trace2 + phi.p2 * dots.m);
    if (LINEAR) {
        sum += dots.inner * dots.v + 0.5 * (dots.rest + dots.rest_other) + 0.25 * dots.trace2;
    }
    return sum;
}

fn coefficients(phi: Phi, dots: Dots) -> Coefficients {
    var c = Coefficients();
    c.b = phi.p0;
    c.z = -0.5 * phi.p1;
    c.m = -0.5 * phi.p2;
    c.trace2 = -0.25 * phi.p1;
    if (LINEAR) {
        c.b += dots.inner;
        c.rest = 0.5;
        c.rest_other = 0.5;
        c.trace2 += 0.25;
    }
    return c;
}
