//! How close each evaluation comes to the device's matrix-multiply and memory rates, measured in the same run.

use super::timing::{Contender, Effort, race};
use super::{Case, Measurement, evaluation, random_problem};
use crate::engine::Place;
use crate::kernel::KernelKind;
use crate::numeric::matmul;
use crate::objective::{Estimator, Objective};
use crate::{Matrix, Result};
use rayon::prelude::*;
use serde::Serialize;

/// The limits of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rates {
    /// The rate of the fastest matrix product, in 10⁹ operations per second.
    pub gflops: f64,
    /// The shape of that product: rows, inner size, columns.
    pub shape: (usize, usize, usize),
    /// The rate of reading and writing memory, in 10⁹ bytes per second.
    pub gigabytes: f64,
}

/// The time of an evaluation and how it compares with the device's limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PathTimes {
    /// The measurement.
    pub record: Measurement,
    /// The share of the matrix-multiply rate that it reaches.
    pub of_products: f64,
    /// The least possible time, by its operations and bytes, divided by the measured time.
    pub of_bound: f64,
    /// What determines the least possible time.
    pub bound: &'static str,
}

/// The limits of a device and the evaluations on it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Roofline {
    /// The device's limits.
    pub rates: Rates,
    /// The evaluations.
    pub paths: Vec<PathTimes>,
}

fn cases(place: &Place, quick: bool) -> Vec<Case> {
    let small = quick || place.is_software();
    let linear: &[usize] = if small { &[20, 200] } else { &[20, 50, 100, 200, 500, 1000, 2000] };
    let all: &[(usize, usize)] = match (place.is_software(), quick) {
        (true, _) => &[(512, 20)],
        (_, true) => &[(1000, 20)],
        _ => &[(1000, 20), (1000, 200), (4000, 20), (4000, 200)],
    };
    let mut cases: Vec<Case> = linear.iter().map(|&d| Case::skds(Estimator::Linear, 512, d)).collect();
    cases.extend(all.iter().map(|&(n, d)| Case::skds(Estimator::U, n, d)));
    let (n, d) = all[all.len() - 1];
    for kernel in [KernelKind::Rbf, KernelKind::ImqPlus] {
        cases.push(Case { objective: Objective::Kds, kernel, estimator: Estimator::U, n, d });
    }
    cases
}

/// Measures a device's limits and the evaluations on it.
pub fn roofline(place: &Place, quick: bool, effort: Effort) -> Result<Roofline> {
    let cases = cases(place, quick);
    let mut contenders = cases.iter().map(|case| evaluation(place, *case)).collect::<Result<Vec<_>>>()?;
    let (rates, timings) = match place {
        Place::Cpu => {
            let shapes: &[(usize, usize, usize)] = if quick {
                &[(512, 1000, 1000)]
            } else {
                &[(512, 1000, 1000), (512, 2000, 2000), (2000, 2000, 2000)]
            };
            contenders.extend(shapes.iter().map(|&shape| product(shape)));
            let bytes = if quick { 1 << 26 } else { 1 << 28 };
            contenders.push(triad(bytes));
            let mut timings = race(&mut contenders, effort)?;
            let memory = timings.pop().expect("the last contender");
            let products = timings.split_off(cases.len());
            let rate = |k: usize| {
                let (m, k_sum, n) = shapes[k];
                2e-9 * (m * k_sum * n) as f64 / products[k].median()
            };
            let best = (0..shapes.len()).max_by(|a, b| rate(*a).total_cmp(&rate(*b))).expect("a shape");
            let gigabytes = 1e-9 * bytes as f64 / memory.median();
            (Rates { gflops: rate(best), shape: shapes[best], gigabytes }, timings)
        }
        Place::Gpu(_) => (gpu_rates(place)?, race(&mut contenders, effort)?),
    };
    let paths = cases.iter().zip(&timings).map(|(case, timing)| {
        let record = Measurement::of("roofline", place, case, timing);
        let (operations, moves) =
            (record.flops / (1e9 * rates.gflops), record.bytes / (1e9 * rates.gigabytes));
        PathTimes {
            of_products: record.gflops / rates.gflops,
            of_bound: operations.max(moves) / (1e-3 * record.median_ms),
            bound: if operations >= moves { "products" } else { "memory" },
            record,
        }
    });
    let paths = paths.collect();
    Ok(Roofline { rates, paths })
}

fn product(shape: (usize, usize, usize)) -> Contender<'static> {
    let (m, k, n) = shape;
    let entry = |i: usize, j: usize| ((i * 7 + j * 3) % 11) as f32 - 5.0;
    let (lhs, rhs) = (Matrix::from_fn(m, k, entry), Matrix::from_fn(n, k, entry));
    let mut dst = Matrix::full(m, n, 0.0f32);
    Contender::new(format!("product {m} × {k} × {n}"), move || {
        matmul::product(dst.view_mut(), lhs.view(), rhs.view().transpose());
        Ok(())
    })
}

/// a = b + s c over arrays that no cache holds; `bytes` are those of all three.
fn triad(bytes: usize) -> Contender<'static> {
    let count = bytes / 12;
    let (b, c) = (vec![1.0f32; count], vec![2.0f32; count]);
    let mut a = vec![0.0f32; count];
    Contender::new("memory", move || {
        const CHUNK: usize = 1 << 16;
        a.par_chunks_mut(CHUNK).zip(b.par_chunks(CHUNK)).zip(c.par_chunks(CHUNK)).for_each(|((a, b), c)| {
            a.iter_mut().zip(b).zip(c).for_each(|((a, b), c)| *a = b + 0.5 * c);
        });
        Ok(())
    })
}

/// Of a GPU: products by its clock around stage `drift`, memory by copies between buffers.
fn gpu_rates(place: &Place) -> Result<Rates> {
    let engine = place.gpu().expect("a GPU");
    let (n, d) = if place.is_software() { (512, 256) } else { (4096, 2048) };
    let (data, parameters) = random_problem(n, d);
    let mut loss = engine.load_gpu(&data, &Case::skds(Estimator::Linear, n, d).spec()?)?;
    let mut gflops: f64 = 0.0;
    for _ in 0..3 {
        let stages = loss.profile(&parameters)?;
        let drift = stages.iter().find(|time| time.stage == "drift").expect("every evaluation has a drift");
        gflops = gflops.max(2e-9 * (n * d * d) as f64 / drift.seconds.max(1e-9));
    }
    let gigabytes = 1e-9 * engine.copy_rate(if place.is_software() { 16 << 20 } else { 128 << 20 })?;
    Ok(Rates { gflops, shape: (n, d, d), gigabytes })
}

/// The table as text.
pub fn text(device: &str, roofline: &Roofline) -> String {
    let Roofline { rates: Rates { gflops, shape: (m, k, n), gigabytes }, paths } = roofline;
    let mut lines = vec![
        format!(
            "{device}: products {gflops:.1} GFLOP/s ({m} × {k} × {n}), memory {gigabytes:.1} GB/s, in the same run"
        ),
        format!(
            "{:<34}{:>11}{:>11}{:>10}{:>10}{:>13}{:>11}  bound by",
            "value and gradient", "ms", "MFLOP", "MB", "GFLOP/s", "of products", "of bound"
        ),
    ];
    for PathTimes { record, of_products, of_bound, bound } in paths {
        lines.push(format!(
            "{:<34}{:>11.4}{:>11.1}{:>10.2}{:>10.1}{:>11.0} %{:>9.0} %  {bound}",
            record.what,
            record.median_ms,
            1e-6 * record.flops,
            1e-6 * record.bytes,
            record.gflops,
            100.0 * of_products,
            100.0 * of_bound
        ));
    }
    lines.push("Operations count matrix products only. Bytes are the fewest that must be moved.".into());
    lines.join("\n")
}
