//! Tail probabilities of the normal distribution and of F.

/// Relative accuracy at which series and continued fractions end.
const ACCURACY: f64 = 1e-15;
/// The most terms of a continued fraction: it needs about the square root of the degrees of freedom.
const TERMS: usize = 100_000;
/// Stands for a denominator of 0.
const TINY: f64 = 1e-300;

/// P(|Z| > z) of a standard normal Z.
pub(super) fn two_sided_normal(z: f64) -> f64 {
    // Γ(½, z²/2) / √π.
    let x = 0.5 * z * z;
    if x.is_nan() || x > 700.0 {
        return if x.is_nan() { x } else { 0.0 };
    }
    let front = (-x).exp() * (x / std::f64::consts::PI).sqrt();
    if x < 2.0 {
        // P(½, x) = front Σ_k x^k / (½ · 3/2 · … · (k + ½)).
        let (mut term, mut sum, mut k) = (2.0, 2.0, 0.5);
        while term > ACCURACY * sum {
            k += 1.0;
            term *= x / k;
            sum += term;
        }
        return 1.0 - front * sum;
    }
    let step = |k: usize| {
        let k = k as f64;
        (-k * (k - 0.5), x + 0.5 + 2.0 * k)
    };
    front * continued_fraction(step)
}

/// P(F < f) with degrees of freedom a and b.
pub(super) fn f_cdf(f: f64, a: f64, b: f64) -> f64 {
    match f {
        f if f.is_nan() => f,
        f if f <= 0.0 => 0.0,
        f if f.is_infinite() => 1.0,
        f => incomplete_beta(a * f / (a * f + b), b / (a * f + b), 0.5 * a, 0.5 * b),
    }
}

/// The regularised incomplete beta function I_x(a, b) with y = 1 − x.
fn incomplete_beta(x: f64, y: f64, a: f64, b: f64) -> f64 {
    // The continued fraction converges fast below the mean.
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - incomplete_beta(y, x, b, a);
    }
    if x <= 0.0 {
        return 0.0;
    }
    let front = (a * x.ln() + b * y.ln() + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let step = |k: usize| {
        let m = (k / 2) as f64;
        let numerator = match k {
            0 => 1.0,
            k if k % 2 == 0 => m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m)),
            _ => -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0)),
        };
        (numerator, 1.0)
    };
    front * continued_fraction(step)
}

/// 1 / (d₀ + n₁ / (d₁ + n₂ / (d₂ + …))) of the pairs (n_k, d_k), by Lentz's method; n₀ does not count.
fn continued_fraction(pair: impl Fn(usize) -> (f64, f64)) -> f64 {
    let nonzero = |x: f64| if x.abs() < TINY { TINY } else { x };
    let mut value = nonzero(pair(0).1);
    let (mut c, mut d) = (value, 0.0);
    for k in 1..TERMS {
        let (numerator, denominator) = pair(k);
        d = 1.0 / nonzero(denominator + numerator * d);
        c = nonzero(denominator + numerator / c);
        value *= c * d;
        if (c * d - 1.0).abs() < ACCURACY {
            break;
        }
    }
    1.0 / value
}

/// ln Γ(x) of x > 0: Stirling's series, from 15 on.
fn ln_gamma(x: f64) -> f64 {
    let (mut x, mut product) = (x, 1.0);
    while x < 15.0 {
        product *= x;
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0, -691.0 / 360_360.0];
    let correction = series.iter().rev().fold(0.0, |sum, term| sum * square + term) / x;
    (x - 0.5) * x.ln() - x + 0.5 * (2.0 * std::f64::consts::PI).ln() + correction - product.ln()
}
