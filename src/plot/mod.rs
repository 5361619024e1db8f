//! Draws panels side by side in one SVG or PNG file.
//!
//! All pictures of the crate go through [`write_picture`] and [`write_grid`], so they share fonts, colours and layout. The same
//! panels always give the same bytes. An SVG file uses the viewer's sans-serif font. A PNG file is made from the SVG with a font
//! that is embedded in the program, so installed fonts do not matter.
//!
//! ```
//! use skds::plot::{Colour, Line, Panel, Scale, write_picture};
//! # let folder = tempfile::tempdir().unwrap();
//! # let path = folder.path().join("square.svg");
//! let points = (0..=20).map(|i| 0.1 * f64::from(i)).map(|x| (x, x * x)).collect();
//! let panel = Panel::Lines {
//!     title: "a parabola".into(),
//!     x_label: "x".into(),
//!     y_label: "x²".into(),
//!     scales: (Scale::Linear, Scale::Linear),
//!     lines: vec![Line { label: "x²".into(), colour: Colour::Blue, points }],
//!     points: vec![],
//!     verticals: vec![1.0],
//!     horizontals: vec![],
//! };
//! write_picture(&path, "An example", &[panel])?;
//! # Ok::<(), skds::Error>(())
//! ```

mod axes;
mod boxes;
mod canvas;
mod colour;
mod contour;
mod draw;
mod heatmap;
mod raster;
#[cfg(test)]
mod tests;

pub use axes::Scale;
pub use boxes::BoxGroup;
pub use colour::Colour;

use crate::files::output;
use crate::{Error, Matrix, Result};
use std::io::Write;
use std::path::Path;

/// A curve through points, broken where a coordinate is not finite.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The name in the legend; empty for none.
    pub label: String,
    /// The colour of the curve.
    pub colour: Colour,
    /// The points in drawing order.
    pub points: Vec<(f64, f64)>,
}

/// A marked point.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The name in the legend; empty for none.
    pub label: String,
    /// The colour of the dot.
    pub colour: Colour,
    /// The position, which must be finite.
    pub at: (f64, f64),
}

/// One panel of a picture.
#[derive(Clone, Debug, PartialEq)]
pub enum Panel {
    /// Curves. The axes show everything in the panel that is finite.
    Lines {
        /// The title, above the frame.
        title: String,
        /// The name of the horizontal axis.
        x_label: String,
        /// The name of the vertical axis.
        y_label: String,
        /// The scales of the horizontal and the vertical axis.
        scales: (Scale, Scale),
        /// The curves. Later ones cover earlier ones.
        lines: Vec<Line>,
        /// Dots on top of the curves.
        points: Vec<Point>,
        /// Dashed guides at these x.
        verticals: Vec<f64>,
        /// Dashed guides at these y.
        horizontals: Vec<f64>,
    },
    /// A function of two variables, in bands of colour from light (low) to dark (high).
    Contour {
        /// The title, above the frame.
        title: String,
        /// The name of the horizontal axis.
        x_label: String,
        /// The name of the vertical axis.
        y_label: String,
        /// Where the columns of `values` are, ascending.
        x: Vec<f64>,
        /// Where the rows of `values` are, ascending.
        y: Vec<f64>,
        /// Row i, column j is the value at (x_j, y_i). Places that are not finite stay white.
        values: Matrix<f64>,
        /// The values at which one band ends and the next begins, ascending; each gets a line.
        levels: Vec<f64>,
        /// Dots on top; they must lie within the grid.
        points: Vec<Point>,
    },
    /// A matrix as squares of colour, the first row at the top: white for 0, red above, blue below, as far as the entry of
    /// largest size. Where there are too many names to read, only every second, fifth, … is shown; of more than 200 rows
    /// or columns a square shows the strongest entry of a block, and the title says so.
    Heatmap {
        /// The title, above the frame.
        title: String,
        /// A label below the names of the columns.
        x_label: String,
        /// A label beside the names of the rows.
        y_label: String,
        /// A name for each row.
        rows: Vec<String>,
        /// A name for each column.
        columns: Vec<String>,
        /// The entries. Entries that are not finite are grey.
        values: Matrix<f64>,
    },
    /// Box plots of several groups: a box from the first to the third quartile, a line at the median, and whiskers to the last
    /// value within 1.5 times the interquartile range.
    Boxes {
        /// The title, above the frame.
        title: String,
        /// The name of the horizontal axis.
        x_label: String,
        /// The scale of the horizontal axis.
        scale: Scale,
        /// The groups from top to bottom.
        groups: Vec<BoxGroup>,
        /// The legend of the marks; empty for none.
        mark_label: String,
    },
}

/// Draws the panels side by side under one title, and creates or replaces the file `path`: SVG or PNG, by its extension.
///
/// Panels that cannot be drawn are an [`Error::Invalid`]: no panels, a grid that does not fit its axes, nothing finite to show.
/// An earlier file of that name then stays as it was.
pub fn write_picture(path: &Path, title: &str, panels: &[Panel]) -> Result<()> {
    write_grid(path, title, panels.len(), panels)
}

/// The picture of the panels side by side, as SVG.
pub fn to_svg(title: &str, panels: &[Panel]) -> Result<String> {
    checked(title, panels.len(), panels)?.svg()
}

/// Like [`write_picture`], with the panels in rows of `columns`.
pub fn write_grid(path: &Path, title: &str, columns: usize, panels: &[Panel]) -> Result<()> {
    let bytes = render(check_picture_path(path)?, title, columns, panels)?;
    output::write_atomically(path, |writer| writer.write_all(&bytes))
}

/// The file format of a picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PictureFormat {
    Svg,
    Png,
}

/// The format of a picture by the extension of its path. Check it before long computations.
pub(crate) fn check_picture_path(path: &Path) -> Result<PictureFormat> {
    match path.extension().map(|ending| ending.to_string_lossy().to_ascii_lowercase()).as_deref() {
        Some("svg") => Ok(PictureFormat::Svg),
        Some("png") => Ok(PictureFormat::Png),
        _ => Err(Error::file(path, "cannot be a picture, expected a name that ends in .svg or .png")),
    }
}

/// The picture as a file's bytes.
fn render(format: PictureFormat, title: &str, columns: usize, panels: &[Panel]) -> Result<Vec<u8>> {
    let picture = checked(title, columns, panels)?;
    match format {
        PictureFormat::Svg => Ok(picture.svg()?.into_bytes()),
        PictureFormat::Png => picture.png(),
    }
}

/// The picture of panels that can be drawn.
fn checked<'a>(title: &'a str, columns: usize, panels: &'a [Panel]) -> Result<draw::Picture<'a>> {
    if panels.is_empty() || columns == 0 {
        return Err(Error::invalid("the picture has no panels, expected at least one"));
    }
    for panel in panels {
        panel.check().map_err(|problem| Error::invalid(format!("panel '{}' {problem}", panel.title())))?;
    }
    draw::Picture::new(title, panels, columns)
}

impl Panel {
    fn title(&self) -> &str {
        match self {
            Panel::Lines { title, .. }
            | Panel::Contour { title, .. }
            | Panel::Heatmap { title, .. }
            | Panel::Boxes { title, .. } => title,
        }
    }

    /// The names of the two axes.
    fn labels(&self) -> (&str, &str) {
        match self {
            Panel::Lines { x_label, y_label, .. }
            | Panel::Contour { x_label, y_label, .. }
            | Panel::Heatmap { x_label, y_label, .. } => (x_label, y_label),
            Panel::Boxes { x_label, .. } => (x_label, ""),
        }
    }

    fn points(&self) -> &[Point] {
        match self {
            Panel::Lines { points, .. } | Panel::Contour { points, .. } => points,
            Panel::Heatmap { .. } | Panel::Boxes { .. } => &[],
        }
    }

    /// What is wrong with the panel, to follow its name.
    fn check(&self) -> std::result::Result<(), String> {
        for point in self.points() {
            if !(point.at.0.is_finite() && point.at.1.is_finite()) {
                return Err(format!("has a point at {:?}, expected finite coordinates", point.at));
            }
        }
        match self {
            Panel::Lines { scales, points, verticals, horizontals, .. } => {
                let across = verticals.iter().map(|v| (scales.0, *v));
                let guides = across.chain(horizontals.iter().map(|v| (scales.1, *v)));
                if let Some((_, guide)) = guides.into_iter().find(|(scale, v)| !scale.has(*v)) {
                    return Err(format!("has a guide at {guide}, expected a finite number on its axis"));
                }
                match points.iter().find(|p| !(scales.0.has(p.at.0) && scales.1.has(p.at.1))) {
                    Some(point) => Err(format!("has a point at {:?}, which is not on its axes", point.at)),
                    None => Ok(()),
                }
            }
            Panel::Boxes { groups, .. } if groups.is_empty() => {
                Err("has no groups, expected at least one".into())
            }
            Panel::Boxes { .. } => Ok(()),
            Panel::Contour { x, y, values, levels, points, .. } => {
                for (name, axis, least) in [("x", x, 2), ("y", y, 2), ("levels", levels, 1)] {
                    if axis.len() < least {
                        return Err(format!(
                            "has {} values in `{name}`, expected at least {least}",
                            axis.len()
                        ));
                    }
                    if !(axis.iter().all(|v| v.is_finite()) && axis.windows(2).all(|w| w[0] < w[1])) {
                        return Err(format!("has `{name}` out of order, expected finite ascending numbers"));
                    }
                }
                let (found, expected) = ([values.rows(), values.cols()], [y.len(), x.len()]);
                if found != expected {
                    return Err(format!(
                        "has values of shape {found:?}, expected {expected:?} like its axes"
                    ));
                }
                if !values.as_slice().iter().any(|v| v.is_finite()) {
                    return Err("has no finite values, expected at least one".into());
                }
                let inside = |axis: &[f64], v: f64| axis[0] <= v && v <= axis[axis.len() - 1];
                match points.iter().find(|p| !(inside(x, p.at.0) && inside(y, p.at.1))) {
                    Some(point) => Err(format!("has a point at {:?} outside of its grid", point.at)),
                    None => Ok(()),
                }
            }
            Panel::Heatmap { rows, columns, values, .. } => {
                let (found, expected) = ([values.rows(), values.cols()], [rows.len(), columns.len()]);
                if found != expected {
                    return Err(format!(
                        "has values of shape {found:?}, expected {expected:?} like its names"
                    ));
                }
                match found.contains(&0) {
                    true => Err(format!("has values of shape {found:?}, expected at least one")),
                    false => Ok(()),
                }
            }
        }
    }
}
