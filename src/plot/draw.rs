//! The layout of a picture and what goes into each frame.

use super::axes::{Frame, LETTER_WIDTH, LETTERS, Range, lone_number, numbers_width};
use super::canvas::{Anchor, Canvas, GREY, INK, svg};
use super::colour::{Colour, ramp};
use super::contour::{Grid, level_lines, polygon};
use super::{Line, Panel, Point};
use crate::{Error, Result};

/// Width and height of a frame in points.
const FRAME: (f64, f64) = (228.0, 228.0);
/// The height of a line of text.
const TEXT_LINE: f64 = 1.45 * LETTERS;
/// The space around everything and between panels.
const MARGIN: f64 = 14.0;
/// The colour scale beside a contour: its distance from the frame and its width.
const SCALE: (f64, f64) = (10.0, 14.0);

/// How an entry of a legend is shown.
enum Swatch {
    Line,
    Dot,
}

/// The whole picture as text. Every panel has passed its check.
pub(super) fn picture(title: &str, panels: &[Panel]) -> Result<String> {
    let ranges = panels.iter().map(ranges).collect::<Result<Vec<_>>>()?;
    let top = MARGIN + if title.is_empty() { 0.0 } else { 1.9 * LETTERS };
    let frame_top = top + TEXT_LINE + 4.0;
    let legend_top = frame_top + FRAME.1 + 3.9 * LETTERS;
    let entries = panels.iter().map(|p| legend(p).len()).max().unwrap_or(0);
    let mut left = MARGIN;
    let mut frames = Vec::new();
    for (panel, &(x, y)) in panels.iter().zip(&ranges) {
        let frame_left = left + numbers_width(y) + 2.5 * LETTERS;
        frames.push(Frame { left: frame_left, top: frame_top, width: FRAME.0, height: FRAME.1, x, y });
        left = frame_left + FRAME.0 + scale_width(panel) + 1.5 * MARGIN;
    }
    let size = (left.ceil(), (legend_top + TEXT_LINE * entries as f64 + 0.5 * MARGIN).ceil());
    svg(size, |canvas| {
        if !title.is_empty() {
            canvas.bold(title, (0.5 * size.0, MARGIN + 0.7 * LETTERS), 1.2 * LETTERS, Anchor::Middle)?;
        }
        for (panel, frame) in panels.iter().zip(&frames) {
            let heading = (frame.left + 0.5 * frame.width, top + 0.5 * TEXT_LINE);
            canvas.text(panel.title(), heading, 1.1 * LETTERS, Anchor::Middle)?;
            match panel {
                Panel::Lines { lines, verticals, horizontals, .. } => {
                    verticals.iter().try_for_each(|&x| frame.vertical(canvas, x))?;
                    horizontals.iter().try_for_each(|&y| frame.horizontal(canvas, y))?;
                    lines.iter().try_for_each(|line| curve(canvas, frame, line))?;
                }
                Panel::Contour { x, y, values, levels, .. } => {
                    bands(canvas, frame, &Grid { x, y, values }, levels)?;
                    scale(canvas, frame, levels)?;
                }
            }
            frame.draw(canvas, panel.labels())?;
            for point in panel.points() {
                canvas.dot(frame.place(point.at), point.colour.rgb())?;
            }
            for (row, (swatch, colour, label)) in legend(panel).into_iter().enumerate() {
                let at = (frame.left, legend_top + TEXT_LINE * (row as f64 + 0.5));
                match swatch {
                    Swatch::Line => canvas.curve(&[at, (at.0 + 22.0, at.1)], colour.rgb(), 2.2)?,
                    Swatch::Dot => canvas.dot((at.0 + 11.0, at.1), colour.rgb())?,
                }
                canvas.text(label, (at.0 + 30.0, at.1), LETTERS, Anchor::Left)?;
            }
        }
        Ok(())
    })
}

/// What the axes of a panel show.
fn ranges(panel: &Panel) -> Result<(Range, Range)> {
    let found = match panel {
        Panel::Lines { lines, points, verticals, horizontals, .. } => {
            let drawn = |(x, y): (f64, f64)| x.is_finite() && y.is_finite();
            let places: Vec<_> = (lines.iter().flat_map(|l| &l.points).copied())
                .chain(points.iter().map(|p| p.at))
                .filter(|&p| drawn(p))
                .collect();
            // Guides alone are nothing to see.
            let shown = !places.is_empty();
            let x = Range::of(places.iter().map(|p| p.0).chain(verticals.iter().copied()));
            let y = Range::of(places.iter().map(|p| p.1).chain(horizontals.iter().copied()));
            shown.then_some((x, y.map(Range::padded)))
        }
        Panel::Contour { x, y, .. } => Some((Range::of(x.iter().copied()), Range::of(y.iter().copied()))),
    };
    let problem = |what| Error::invalid(format!("panel '{}' {what}", panel.title()));
    match found {
        Some((Some(x), Some(y))) => Ok((x, y)),
        Some(_) => Err(problem("spans more than a number can hold")),
        None => Err(problem("has no finite point, expected at least one")),
    }
}

fn legend(panel: &Panel) -> Vec<(Swatch, Colour, &str)> {
    let lines: &[Line] = match panel {
        Panel::Lines { lines, .. } => lines,
        Panel::Contour { .. } => &[],
    };
    let lines = lines.iter().map(|line| (Swatch::Line, line.colour, line.label.as_str()));
    let dots = |p: &Point| !p.label.is_empty();
    let points = panel.points().iter().filter(|p| dots(p)).map(|p| (Swatch::Dot, p.colour, p.label.as_str()));
    lines.filter(|(_, _, label)| !label.is_empty()).chain(points).collect()
}

fn curve(canvas: &mut Canvas<'_>, frame: &Frame, line: &Line) -> Result<()> {
    for part in line.points.split(|(x, y)| !(x.is_finite() && y.is_finite())) {
        let places: Vec<_> = part.iter().map(|&p| frame.place(p)).collect();
        match places.as_slice() {
            [] => {}
            // A point between two gaps is no line, but it is data.
            &[(x, y)] => canvas.curve(&[(x, y), (x + 0.1, y)], line.colour.rgb(), 2.2)?,
            places => canvas.curve(places, line.colour.rgb(), 2.2)?,
        }
    }
    Ok(())
}

/// The colour of the band below level `index`, or above all levels.
fn band_colour(index: usize, levels: usize) -> [u8; 3] {
    ramp(index as f64 / levels as f64)
}

/// Paints from the lowest band up, each region over the larger one below it, then the lines between.
fn bands(canvas: &mut Canvas<'_>, frame: &Frame, grid: &Grid<'_>, levels: &[f64]) -> Result<()> {
    let mut lines = Vec::new();
    // The least number: the lowest band is wherever the function is finite.
    for (index, &level) in [f64::MIN].iter().chain(levels).enumerate() {
        let outline = grid.outline(level);
        if outline.is_empty() {
            continue;
        }
        let ring: Vec<_> = polygon(&outline).into_iter().map(|p| frame.place(p)).collect();
        canvas.polygon(&ring, band_colour(index, levels.len()))?;
        lines.extend(level_lines(&outline));
    }
    for line in lines {
        let places: Vec<_> = line.into_iter().map(|p| frame.place(p)).collect();
        canvas.curve(&places, INK, 0.5)?;
    }
    Ok(())
}

fn scale_width(panel: &Panel) -> f64 {
    match panel {
        Panel::Lines { .. } => 0.0,
        Panel::Contour { levels, .. } => {
            let longest = levels.iter().map(|&v| lone_number(v).chars().count()).max().unwrap_or(0);
            SCALE.0 + SCALE.1 + 4.0 + LETTER_WIDTH * longest as f64
        }
    }
}

/// The colours of all bands, lowest at the bottom, with the levels between them. Bands are equally high,
/// whatever the distance between levels: it is a key to the colours, not an axis.
fn scale(canvas: &mut Canvas<'_>, frame: &Frame, levels: &[f64]) -> Result<()> {
    let (left, right) = (frame.left + frame.width + SCALE.0, frame.left + frame.width + SCALE.0 + SCALE.1);
    let (bottom, height) = (frame.top + frame.height, frame.height / (levels.len() + 1) as f64);
    for index in 0..=levels.len() {
        let low = bottom - height * index as f64;
        let corners = [(left, low), (right, low), (right, low - height), (left, low - height)];
        canvas.polygon(&corners, band_colour(index, levels.len()))?;
    }
    let corners = [(left, bottom), (right, bottom), (right, frame.top), (left, frame.top), (left, bottom)];
    canvas.curve(&corners, GREY, 1.0)?;
    // Numbers that would touch are left out: every second, every third …
    let stride = (TEXT_LINE / height).ceil() as usize;
    for (index, &level) in levels.iter().enumerate() {
        let at = bottom - height * (index + 1) as f64;
        canvas.curve(&[(left, at), (right, at)], INK, 0.5)?;
        if index % stride == 0 {
            canvas.text(&lone_number(level), (right + 4.0, at), LETTERS, Anchor::Left)?;
        }
    }
    Ok(())
}
