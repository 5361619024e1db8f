//! `skds convexity`: is the loss convex on this sample?

use super::command::Command;
use super::print_report;
use crate::data::Dataset;
use crate::kernel::{Bandwidth, KernelKind};
use crate::model::Basis;
use crate::model::basis::FeatureChoice;
use crate::plot::{Colour, Line, Panel, Scale, check_picture_path, write_picture};
use crate::solve::{ConvexityBound, Design, Spectrum, convexity_bound, spectra};
use crate::{Error, Result};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// The probability that the paper's bound is asked for.
const CONFIDENCE: f64 = 0.95;
/// The fewest rows of the sequence.
const LEAST_ROWS: usize = 32;

/// Measure how far SKDS of a linear or basis model is from convex on a sample
///
/// SKDS is a quadratic form in the weights, the biases and the squared noises. Over all pairs (estimator v) it is always
/// convex. Over neighbouring rows (linear) or different rows (u), it may become convex only after ε|θ|² is added. For growing
/// parts of the sample, the table has the extreme eigenvalues of each form and the ε that it needs. Next to the ε of the
/// linear estimator stands its bound by the paper's Proposition 11, which holds with 95 % probability.
#[derive(clap::Args)]
#[command(after_long_help = "\
Examples:
  skds convexity train.npz
  skds convexity train.npz --features polynomial:2
  skds convexity train.npz --kernel rbf --bandwidth 3 --env 2 --plot convexity.svg --json")]
pub(super) struct Args {
    /// The samples: .npz or .csv
    data: PathBuf,
    /// The environment to use, counted from 0
    #[arg(long, value_name = "K", default_value_t = 0)]
    env: usize,
    /// Functions in the drift: polynomial:K, rbf:K or a file, as in 'skds fit' [default: those of the linear model]
    #[arg(long, value_name = "F")]
    features: Option<FeatureChoice>,
    /// Functions in the squared noise, as in 'skds fit'
    #[arg(long, value_name = "G", default_value = "1", requires = "features")]
    diffusion: String,
    /// The kernel: rbf, tilted-rbf or imq-plus
    #[arg(long, default_value = "tilted-rbf")]
    kernel: KernelKind,
    /// Bandwidth of the kernel: a number above 0, or auto for the median distance between samples
    #[arg(long, value_name = "H", default_value = "auto", allow_hyphen_values = true)]
    bandwidth: Bandwidth,
    /// Seed of the pairs that 'auto' draws
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Plot ε and its bound over the sample size, to an .svg or .png file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
}

/// What is printed.
#[derive(Serialize)]
struct Report {
    model: String,
    kernel: &'static str,
    bandwidth: Option<f64>,
    variables: usize,
    sizes: Vec<Size>,
}

/// One size of the sample.
#[derive(Serialize)]
struct Size {
    rows: usize,
    estimates: Vec<Spectrum>,
    proposition_11: ConvexityBound,
}

impl Command for Args {
    fn run(&self) -> Result<()> {
        run(self)
    }
}

fn run(args: &Args) -> Result<()> {
    let data = Dataset::read(&args.data)?;
    if args.env >= data.environments() {
        return Err(Error::invalid(format!(
            "environment {} is unknown, expected a number below {}, the data's environments",
            args.env,
            data.environments()
        )));
    }
    args.plot.as_deref().map(check_picture_path).transpose()?;
    let samples = data.environment(args.env);
    let bandwidth = args.bandwidth.resolve(&data, args.seed)?;
    let kernel = args.kernel.with_bandwidth(bandwidth)?;
    let design = match &args.features {
        Some(features) => Design::basis(Arc::new(Basis::new(features, &args.diffusion, &data)?), &data)?,
        None => Design::Linear,
    };
    let mut sizes = Vec::new();
    for n in doubling(samples.rows()) {
        let estimates = spectra(&samples, n, &design, kernel)?;
        let proposition_11 = convexity_bound(&samples, n, &design, kernel, CONFIDENCE);
        sizes.push(Size { rows: n, estimates, proposition_11 });
    }
    let report = Report {
        model: args.features.as_ref().map_or_else(|| "linear".into(), |features| features.to_string()),
        kernel: args.kernel.name(),
        bandwidth: kernel.bandwidth(),
        variables: data.dim(),
        sizes,
    };
    if let Some(path) = &args.plot {
        write_picture(path, "What makes the estimate convex", &[report.panel()])?;
    }
    print_report(args.json, &report, || report.to_text())
}

/// All rows, half of them, a quarter, …, ascending.
fn doubling(rows: usize) -> Vec<usize> {
    let halves = std::iter::successors(Some(rows), |n| Some(n / 2).filter(|n| *n >= LEAST_ROWS));
    let mut sizes: Vec<usize> = halves.collect();
    sizes.reverse();
    sizes
}

impl Report {
    fn to_text(&self) -> String {
        let bandwidth = self.bandwidth.map_or(String::new(), |h| format!(", bandwidth {h:.4}"));
        let mut lines = vec![
            format!(
                "SKDS of the model {} of {} variables, {} kernel{bandwidth}",
                self.model, self.variables, self.kernel
            ),
            String::new(),
            format!(
                "{:>8}  {:<8}{:>14}{:>14}{:>14}{:>18}",
                "rows", "pairs", "smallest", "largest", "ε", "Proposition 11"
            ),
        ];
        for size in &self.sizes {
            for Spectrum { estimator, smallest, largest, epsilon, .. } in &size.estimates {
                let bounded = match *estimator {
                    "linear" => format!("{:>18.3e}", size.proposition_11.epsilon),
                    _ => String::new(),
                };
                let line = format!(
                    "{:>8}  {estimator:<8}{smallest:>14.3e}{largest:>14.3e}{epsilon:>14.3e}{bounded}",
                    size.rows
                );
                lines.push(line);
            }
        }
        lines.join("\n")
    }

    /// On logarithmic axes; an ε of 0 has no place there and leaves a gap.
    fn panel(&self) -> Panel {
        let line = |label: &str, colour: Colour, epsilon: &dyn Fn(&Size) -> f64| Line {
            label: label.into(),
            colour,
            points: self.sizes.iter().map(|size| (size.rows as f64, epsilon(size))).collect(),
        };
        let of = |name: &'static str| {
            move |size: &Size| {
                let spectrum = size.estimates.iter().find(|s| s.estimator == name);
                // Rounding is no sign of curvature.
                spectrum.map_or(0.0, |s| if s.epsilon > 1e-12 * s.largest { s.epsilon } else { 0.0 })
            }
        };
        Panel::Lines {
            title: format!("{} variables, {} kernel", self.variables, self.kernel),
            x_label: "n".into(),
            y_label: "ε".into(),
            scales: (Scale::Log, Scale::Log),
            lines: vec![
                line("linear", Colour::Blue, &of("linear")),
                line("u", Colour::Green, &of("u")),
                line("v", Colour::Purple, &of("v")),
                line("Proposition 11", Colour::Red, &|size: &Size| size.proposition_11.epsilon),
            ],
            points: vec![],
            verticals: vec![],
            horizontals: vec![],
        }
    }
}
