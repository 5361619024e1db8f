// KDS: the generator applied to both arguments of a radial kernel, with ζ for the tilt. See src/objective/kds.rs for
// the formula that these two functions spell out.

fn term(phi: Phi, dots: Dots) -> f32 {
    var sum = 0.5 * (dots.pi - dots.pi_other) * (phi.p2 * dots.trace + phi.p3 * dots.w) - phi.p1 * dots.v
        - phi.p2 * dots.pi * dots.pi_other
        + phi.p2 * (dots.g + 0.25 * (dots.trace * dots.trace + 2.0 * dots.trace2))
        + phi.p3 * (0.5 * dots.w * dots.trace + dots.m)
        + 0.25 * phi.p4 * dots.w * dots.w;
    if (TILTED) {
        let noise = 0.5 * (phi.p1 * dots.trace + phi.p2 * dots.w);
        let both = dots.rest * dots.rest_other;
        sum += dots.rest_other * (phi.p1 * dots.pi + noise) + dots.rest * (noise - phi.p1 * dots.pi_other) + both * phi.p0;
        if (LINEAR) {
            sum += dots.v + dots.rest_other * dots.b_y + dots.rest * dots.b_x + both * dots.inner;
        }
    }
    return sum;
}

fn coefficients(phi: Phi, dots: Dots) -> Coefficients {
    let push = 0.5 * (phi.p2 * dots.trace + phi.p3 * dots.w);
    var c = Coefficients();
    c.b = -phi.p1;
    c.r = push - phi.p2 * dots.pi_other;
    c.r_other = -(push + phi.p2 * dots.pi);
    c.z = phi.p2;
    c.w = 0.5 * (phi.p3 * (dots.pi - dots.pi_other + dots.trace) + phi.p4 * dots.w);
    c.m = 2.0 * phi.p3;
    c.trace = push + 0.5 * phi.p2 * (dots.pi - dots.pi_other);
    c.trace2 = 0.5 * phi.p2;
    if (TILTED) {
        let noise = 0.5 * (phi.p1 * dots.trace + phi.p2 * dots.w);
        c.r += dots.rest_other * phi.p1;
        c.r_other -= dots.rest * phi.p1;
        c.w += 0.5 * phi.p2 * (dots.rest + dots.rest_other);
        c.trace += 0.5 * phi.p1 * (dots.rest + dots.rest_other);
        c.rest = noise - phi.p1 * dots.pi_other + dots.rest_other * phi.p0;
        c.rest_other = noise + phi.p1 * dots.pi + dots.rest * phi.p0;
        if (LINEAR) {
            c.b += 1.0;
            c.y = dots.rest_other;
            c.x = dots.rest;
            c.rest += dots.b_x + dots.rest_other * dots.inner;
            c.rest_other += dots.b_y + dots.rest * dots.inner;
        }
    }
    return c;
}
