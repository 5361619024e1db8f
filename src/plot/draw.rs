//! The layout of a picture and what goes into each frame.

use super::axes::{Frame, LETTER_WIDTH, LETTERS, Range, lone_number, numbers_width};
use super::canvas::{Anchor, Canvas, GREY, INK, svg};
use super::colour::{Colour, ramp};
use super::contour::{Grid, level_lines, polygon};
use super::heatmap::Heatmap;
use super::{Line, Panel, Point};
use crate::{Error, Result};

/// Width and height of a frame in points.
pub(super) const FRAME: (f64, f64) = (228.0, 228.0);
/// The height of a line of text.
pub(super) const TEXT_LINE: f64 = 1.45 * LETTERS;
/// The space around everything and between panels.
const MARGIN: f64 = 14.0;
/// The colour scale beside a frame: its distance from the frame and its width.
pub(super) const SCALE: (f64, f64) = (10.0, 14.0);

/// The room a panel takes: its frame, and what stands around it.
pub(super) struct Room {
    pub(super) frame: (f64, f64),
    pub(super) left: f64,
    pub(super) right: f64,
    pub(super) below: f64,
}

/// How an entry of a legend is shown.
enum Swatch {
    Line,
    Dot,
}

/// The whole picture as text. Every panel has passed its check.
pub(super) fn picture(title: &str, panels: &[Panel]) -> Result<String> {
    let heatmaps: Vec<_> = panels.iter().map(heatmap).collect();
    let ranges = panels
        .iter()
        .zip(&heatmaps)
        .map(|(panel, heatmap)| ranges(panel, heatmap.as_ref()))
        .collect::<Result<Vec<_>>>()?;
    let top = MARGIN + if title.is_empty() { 0.0 } else { 1.9 * LETTERS };
    let frame_top = top + TEXT_LINE + 4.0;
    let rooms: Vec<_> = (panels.iter().zip(&heatmaps).zip(&ranges))
        .map(|((panel, heatmap), &(_, y))| room(panel, heatmap.as_ref(), y))
        .collect();
    let legend_top = frame_top + rooms.iter().map(|room| room.frame.1 + room.below).fold(0.0, f64::max);
    let entries = panels.iter().map(|p| legend(p).len()).max().unwrap_or(0);
    let mut left = MARGIN;
    let mut frames = Vec::new();
    for (room, &(x, y)) in rooms.iter().zip(&ranges) {
        let (frame_left, (width, height)) = (left + room.left, room.frame);
        frames.push(Frame { left: frame_left, top: frame_top, width, height, x, y });
        left = frame_left + width + room.right + 1.5 * MARGIN;
    }
    let size = (left.ceil(), (legend_top + TEXT_LINE * entries as f64 + 0.5 * MARGIN).ceil());
    svg(size, |canvas| {
        if !title.is_empty() {
            canvas.bold(title, (0.5 * size.0, MARGIN + 0.7 * LETTERS), 1.2 * LETTERS, Anchor::Middle)?;
        }
        for ((panel, heatmap), frame) in panels.iter().zip(&heatmaps).zip(&frames) {
            let heading = (frame.left + 0.5 * frame.width, top + 0.5 * TEXT_LINE);
            let title = heatmap.as_ref().map_or(panel.title().into(), |h| h.heading(panel.title()));
            canvas.text(&title, heading, 1.1 * LETTERS, Anchor::Middle)?;
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
                Panel::Heatmap { .. } => {}
            }
            match heatmap {
                // A whole number of points, so that squares end where pixels do.
                Some(heatmap) => {
                    heatmap.draw(canvas, (frame.left.round(), frame.top.round()), frame.y, panel.labels())?;
                }
                None => frame.draw(canvas, panel.labels())?,
            }
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

/// The squares of a panel that has some.
fn heatmap(panel: &Panel) -> Option<Heatmap> {
    match panel {
        Panel::Heatmap { rows, columns, values, .. } => Some(Heatmap::new(rows, columns, values)),
        _ => None,
    }
}

fn room(panel: &Panel, heatmap: Option<&Heatmap>, y: Range) -> Room {
    match heatmap {
        Some(heatmap) => heatmap.room(panel.title(), y),
        None => Room {
            frame: FRAME,
            left: numbers_width(y) + 2.5 * LETTERS,
            right: scale_width(panel),
            below: 3.9 * LETTERS,
        },
    }
}

/// What the axes of a panel show; for a heatmap, what its colour scale shows.
fn ranges(panel: &Panel, heatmap: Option<&Heatmap>) -> Result<(Range, Range)> {
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
        Panel::Heatmap { .. } => heatmap.map(|heatmap| (heatmap.range(), heatmap.range())),
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
        Panel::Contour { .. } | Panel::Heatmap { .. } => &[],
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
        Panel::Lines { .. } | Panel::Heatmap { .. } => 0.0,
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
