//! A run of pairs in three loops: inner products over d, coefficients over pairs, adjoints over d.
//!
//! The numbers between the loops lie in columns, one entry per pair, so that the middle loop, with its
//! exponential, is vector code like the others.

use crate::Scalar;
use crate::engine::cpu::diffusion_product::DiffusionProduct;
use crate::kernel::Profile;
use crate::numeric::simd::{Group, LANES, add_product, groups, groups_mut, total};
use crate::objective::{Coefficients, Dots, PairTerm};

/// Pairs in a run: one task.
pub(super) const PAIRS: usize = 32;

/// A number for each pair of a run.
type Column<T> = [T; PAIRS];

/// Consecutive pairs of rows and where their adjoints go.
pub(super) struct Run<'a, T> {
    pub x: &'a [T],
    pub b: &'a [T],
    pub omega: &'a [T],
    pub rest: &'a [T],
    pub b_bar: &'a mut [T],
    pub rest_bar: &'a mut [T],
    pub stride: usize,
    /// What every adjoint is multiplied with; the loss is not.
    pub weight: T,
    pub trace: T,
    pub trace2: T,
}

/// Sums over a run.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub term: f64,
    pub trace: f64,
    pub trace2: f64,
}

/// Lanes of the inner products of each pair, before they are summed.
struct Lanes<T> {
    rho: [Group<T>; PAIRS],
    v: [Group<T>; PAIRS],
    g: [Group<T>; PAIRS],
    m: [Group<T>; PAIRS],
    pi: [Group<T>; PAIRS],
    pi_other: [Group<T>; PAIRS],
    w: [Group<T>; PAIRS],
    inner: [Group<T>; PAIRS],
    b_y: [Group<T>; PAIRS],
    b_x: [Group<T>; PAIRS],
}

/// [`Coefficients`] of each pair.
struct Columns<T> {
    b: Column<T>,
    r: Column<T>,
    r_other: Column<T>,
    z: Column<T>,
    w: Column<T>,
    m: Column<T>,
    y: Column<T>,
    x: Column<T>,
}

/// The sums of the lanes.
#[inline(always)]
fn column<T: Scalar>(lanes: &[Group<T>; PAIRS]) -> Column<T> {
    let mut column = [T::ZERO; PAIRS];
    for p in 0..PAIRS {
        column[p] = total(lanes[p]);
    }
    column
}

/// The groups of the two rows of pair `p`.
#[inline(always)]
fn two_rows<T>(rows: &[T], p: usize, stride: usize) -> (&[Group<T>], &[Group<T>]) {
    let (first, second) = rows[2 * p * stride..(2 * p + 2) * stride].split_at(stride);
    (groups(first), groups(second))
}

impl<T: Scalar> Run<'_, T> {
    /// Fills in the adjoints and returns the sums.
    #[inline(always)]
    pub(super) fn visit<P: Profile<T>, O: PairTerm, S: DiffusionProduct<T>>(
        mut self,
        profile: P,
        mut spread: S,
    ) -> Totals {
        let lanes = self.measure::<P, O, S>(&spread);
        let (columns, totals) = self.weigh::<P, O>(profile, &lanes);
        self.scatter::<P, O, S>(&columns, &mut spread);
        totals
    }

    fn pairs(&self) -> usize {
        self.rest.len() / 2
    }

    #[inline(always)]
    fn measure<P: Profile<T>, O: PairTerm, S: DiffusionProduct<T>>(&self, spread: &S) -> Lanes<T> {
        let zero = [T::ZERO; LANES];
        let zeros = [zero; PAIRS];
        let mut lanes = Lanes {
            rho: zeros,
            v: zeros,
            g: zeros,
            m: zeros,
            pi: zeros,
            pi_other: zeros,
            w: zeros,
            inner: zeros,
            b_y: zeros,
            b_x: zeros,
        };
        for p in 0..self.pairs() {
            let ((x, y), (b, b_other)) = (two_rows(self.x, p, self.stride), two_rows(self.b, p, self.stride));
            let (mut rho, mut v, mut g, mut m) = (zero, zero, zero, zero);
            let (mut pi, mut pi_other, mut w) = (zero, zero, zero);
            let (mut inner, mut b_y, mut b_x) = (zero, zero, zero);
            for (k, ((x, y), (b, b_other))) in x.iter().zip(y).zip(b.iter().zip(b_other)).enumerate() {
                let (mut r, mut delta) = (zero, zero);
                for l in 0..LANES {
                    r[l] = x[l] - y[l];
                    delta[l] = b[l] - b_other[l];
                }
                let z = spread.product(p, k, &r);
                add_product(&mut rho, &r, &r);
                add_product(&mut v, b, b_other);
                add_product(&mut g, &delta, &z);
                add_product(&mut m, &z, &z);
                if O::QUADRATIC {
                    add_product(&mut pi, b, &r);
                    add_product(&mut pi_other, b_other, &r);
                    add_product(&mut w, &r, &z);
                }
                if P::LINEAR {
                    add_product(&mut inner, x, y);
                    if O::QUADRATIC {
                        add_product(&mut b_y, b, y);
                        add_product(&mut b_x, b_other, x);
                    }
                }
            }
            (lanes.rho[p], lanes.v[p], lanes.g[p], lanes.m[p]) = (rho, v, g, m);
            if O::QUADRATIC {
                (lanes.pi[p], lanes.pi_other[p], lanes.w[p]) = (pi, pi_other, w);
            }
            if P::LINEAR {
                (lanes.inner[p], lanes.b_y[p], lanes.b_x[p]) = (inner, b_y, b_x);
            }
        }
        lanes
    }

    #[inline(always)]
    fn weigh<P: Profile<T>, O: PairTerm>(&mut self, profile: P, lanes: &Lanes<T>) -> (Columns<T>, Totals) {
        let zero: Column<T> = [T::ZERO; PAIRS];
        let (mut tilt, mut rest, mut rest_other) = ([T::ONE; PAIRS], zero, zero);
        for p in 0..self.pairs() {
            if P::TILTED {
                tilt[p] = self.omega[2 * p] * self.omega[2 * p + 1];
                (rest[p], rest_other[p]) = (self.rest[2 * p], self.rest[2 * p + 1]);
            }
        }
        let (rho, v, g, m) = (column(&lanes.rho), column(&lanes.v), column(&lanes.g), column(&lanes.m));
        let (mut pi, mut pi_other, mut w) = (zero, zero, zero);
        if O::QUADRATIC {
            (pi, pi_other, w) = (column(&lanes.pi), column(&lanes.pi_other), column(&lanes.w));
        }
        let (mut inner, mut b_y, mut b_x) = (zero, zero, zero);
        if P::LINEAR {
            (inner, b_y, b_x) = (column(&lanes.inner), column(&lanes.b_y), column(&lanes.b_x));
        }
        let mut columns =
            Columns { b: zero, r: zero, r_other: zero, z: zero, w: zero, m: zero, y: zero, x: zero };
        let (mut term, mut trace, mut trace2) = (zero, zero, zero);
        let (mut rest_bar, mut rest_bar_other) = (zero, zero);
        for p in 0..PAIRS {
            let dots = Dots {
                v: v[p],
                g: g[p],
                m: m[p],
                pi: pi[p],
                pi_other: pi_other[p],
                w: w[p],
                inner: T::ONE + inner[p],
                b_y: b_y[p],
                b_x: b_x[p],
                rest: rest[p],
                rest_other: rest_other[p],
                trace: self.trace,
                trace2: self.trace2,
            };
            let phi = profile.derivatives(T::HALF * rho[p]);
            term[p] = tilt[p] * O::term::<T, P>(&phi, &dots);
            let c: Coefficients<T> = O::coefficients::<T, P>(&phi, &dots).scaled(self.weight * tilt[p]);
            (columns.b[p], columns.z[p], columns.m[p]) = (c.b, c.z, c.m);
            (columns.r[p], columns.r_other[p], columns.w[p]) = (c.r, c.r_other, c.w);
            (columns.y[p], columns.x[p]) = (c.y, c.x);
            (rest_bar[p], rest_bar_other[p]) = (c.rest, c.rest_other);
            (trace[p], trace2[p]) = (c.trace, c.trace2);
        }
        let mut totals = Totals::default();
        for p in 0..self.pairs() {
            totals.term += term[p].to_f64();
            totals.trace += trace[p].to_f64();
            totals.trace2 += trace2[p].to_f64();
            (self.rest_bar[2 * p], self.rest_bar[2 * p + 1]) = (rest_bar[p], rest_bar_other[p]);
        }
        (columns, totals)
    }

    #[inline(always)]
    fn scatter<P: Profile<T>, O: PairTerm, S: DiffusionProduct<T>>(
        &mut self,
        columns: &Columns<T>,
        spread: &mut S,
    ) {
        let zero = [T::ZERO; LANES];
        for p in 0..self.pairs() {
            let ((x, y), (b, b_other)) = (two_rows(self.x, p, self.stride), two_rows(self.b, p, self.stride));
            let bars = &mut self.b_bar[2 * p * self.stride..(2 * p + 2) * self.stride];
            let (bar, bar_other) = bars.split_at_mut(self.stride);
            let (bar, bar_other) = (groups_mut(bar), groups_mut(bar_other));
            let (c_b, c_z, c_m) = (columns.b[p], columns.z[p], columns.m[p]);
            let (c_r, c_r_other, c_w) = (columns.r[p], columns.r_other[p], columns.w[p]);
            let (c_y, c_x) = (columns.y[p], columns.x[p]);
            let inputs = x.iter().zip(y).zip(b.iter().zip(b_other));
            let outputs = bar.iter_mut().zip(bar_other);
            for (k, (((x, y), (b, b_other)), (bar, bar_other))) in inputs.zip(outputs).enumerate() {
                let mut r = zero;
                for l in 0..LANES {
                    r[l] = x[l] - y[l];
                }
                let z = spread.product(p, k, &r);
                // Whole groups at a time: through the references the compiler would store number by number.
                let (mut here, mut there, mut z_bar) = (zero, zero, zero);
                for l in 0..LANES {
                    here[l] = c_b * b_other[l] + c_z * z[l];
                    there[l] = c_b * b[l] - c_z * z[l];
                    z_bar[l] = c_z * (b[l] - b_other[l]) + c_m * z[l];
                }
                if O::QUADRATIC {
                    for l in 0..LANES {
                        here[l] += c_r * r[l];
                        there[l] += c_r_other * r[l];
                        z_bar[l] += c_w * r[l];
                    }
                    if P::LINEAR {
                        for l in 0..LANES {
                            here[l] += c_y * y[l];
                            there[l] += c_x * x[l];
                        }
                    }
                }
                (*bar, *bar_other) = (here, there);
                spread.add_adjoint(p, k, &r, &z_bar);
            }
        }
    }
}
