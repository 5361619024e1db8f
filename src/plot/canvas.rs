//! The drawing surface: the SVG backend of plotters at a finer resolution.

use crate::{Error, Result};
use plotters::backend::{DrawingBackend, SVGBackend};
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontDesc, FontFamily, FontStyle, FontTransform, RGBAColor, ShapeStyle, TextStyle};

/// The backend rounds to whole units, so the drawing is this many times larger to keep curves smooth.
const FINENESS: f64 = 10.0;

/// The alignment of a text relative to its position.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    /// The text begins at the position.
    Left,
    /// The text is centred at the position.
    Middle,
    /// The text ends at the position.
    Right,
    /// The text reads upwards and is centred at the position.
    Upwards,
    /// The text reads upwards and ends at the position.
    UpwardsTo,
}

pub(super) const GREY: [u8; 3] = [120, 120, 120];
pub(super) const INK: [u8; 3] = [38, 38, 38];
pub(super) const WHITE: [u8; 3] = [255, 255, 255];

/// A canvas with coordinates in points, x to the right and y down.
pub(super) struct Canvas<'a> {
    backend: SVGBackend<'a>,
    /// The size of letters as a share of the size that the layout assumes.
    letter_share: f64,
}

fn fine(value: f64) -> i32 {
    (FINENESS * value).round() as i32
}

fn place((x, y): (f64, f64)) -> (i32, i32) {
    (fine(x), fine(y))
}

fn style([r, g, b]: [u8; 3], alpha: f64, width: f64) -> ShapeStyle {
    ShapeStyle { color: RGBAColor(r, g, b, alpha), filled: true, stroke_width: fine(width) as u32 }
}

/// The backend writes to memory and should not fail. If it does, the error says so.
fn failed(error: impl std::fmt::Display) -> Error {
    Error::invalid(format!("the picture could not be drawn: {error}"))
}

/// The SVG text of a picture of the given size in points that `draw` fills, with letters of `letter_share` of their size.
pub(super) fn svg(
    size: (f64, f64),
    letter_share: f64,
    draw: impl FnOnce(&mut Canvas<'_>) -> Result<()>,
) -> Result<String> {
    let mut text = String::new();
    let (width, height) = (fine(size.0), fine(size.1));
    let backend = SVGBackend::with_string(&mut text, (width as u32, height as u32));
    let mut canvas = Canvas { backend, letter_share };
    canvas.ground(size)?;
    draw(&mut canvas)?;
    canvas.backend.present().map_err(failed)?;
    drop(canvas);
    // The backend's first line gives the fine size as the size on screen: give the one in points instead.
    let body = text.split_once('\n').map_or("", |(_, body)| body);
    Ok(format!(
        "<svg width=\"{}\" height=\"{}\" viewBox=\"0 0 {width} {height}\" stroke-linejoin=\"round\" \
         stroke-linecap=\"round\" xmlns=\"http://www.w3.org/2000/svg\">\n{body}",
        size.0, size.1
    ))
}

impl Canvas<'_> {
    /// Paints everything white.
    fn ground(&mut self, size: (f64, f64)) -> Result<()> {
        self.polygon(&[(0.0, 0.0), (size.0, 0.0), size, (0.0, size.1)], WHITE)
    }

    pub(super) fn curve(&mut self, points: &[(f64, f64)], colour: [u8; 3], width: f64) -> Result<()> {
        let points = points.iter().map(|&p| place(p));
        self.backend.draw_path(points, &style(colour, 1.0, width)).map_err(failed)
    }

    /// Draws a dashed straight line.
    pub(super) fn dashes(&mut self, from: (f64, f64), to: (f64, f64), colour: [u8; 3]) -> Result<()> {
        const DASH: f64 = 4.0;
        let length = (to.0 - from.0).hypot(to.1 - from.1);
        let along = |s: f64| (from.0 + (to.0 - from.0) * s / length, from.1 + (to.1 - from.1) * s / length);
        let mut start = 0.0;
        while start < length {
            self.curve(&[along(start), along((start + DASH).min(length))], colour, 1.0)?;
            start += 2.0 * DASH;
        }
        Ok(())
    }

    pub(super) fn polygon(&mut self, points: &[(f64, f64)], colour: [u8; 3]) -> Result<()> {
        let points = points.iter().map(|&p| place(p));
        self.backend.fill_polygon(points, &style(colour, 1.0, 0.0)).map_err(failed)
    }

    /// Draws a dot with a white rim, which is visible on any background.
    pub(super) fn dot(&mut self, at: (f64, f64), colour: [u8; 3]) -> Result<()> {
        for (colour, radius) in [(WHITE, 5.5), (colour, 4.2)] {
            let style = style(colour, 1.0, 0.0);
            self.backend.draw_circle(place(at), fine(radius) as u32, &style, true).map_err(failed)?;
        }
        Ok(())
    }

    /// Writes `text` in letters of `size` points, centred vertically at `at`.
    pub(super) fn text(&mut self, text: &str, at: (f64, f64), size: f64, anchor: Anchor) -> Result<()> {
        self.styled_text(text, at, size, anchor, FontStyle::Normal)
    }

    pub(super) fn bold(&mut self, text: &str, at: (f64, f64), size: f64, anchor: Anchor) -> Result<()> {
        self.styled_text(text, at, size, anchor, FontStyle::Bold)
    }

    fn styled_text(
        &mut self,
        text: &str,
        at: (f64, f64),
        size: f64,
        anchor: Anchor,
        weight: FontStyle,
    ) -> Result<()> {
        // XML does not allow control characters, not even escaped.
        let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        let (side, transform) = match anchor {
            Anchor::Left => (HPos::Left, FontTransform::None),
            Anchor::Middle => (HPos::Center, FontTransform::None),
            Anchor::Right => (HPos::Right, FontTransform::None),
            Anchor::Upwards => (HPos::Center, FontTransform::Rotate270),
            Anchor::UpwardsTo => (HPos::Right, FontTransform::Rotate270),
        };
        // The backend divides sizes by 1.24.
        let size = self.letter_share * (1.24 * FINENESS * size);
        let font = FontDesc::new(FontFamily::SansSerif, size, weight).transform(transform);
        let ink = style(INK, 1.0, 0.0).color;
        let style = TextStyle::from(font).color(&ink).pos(Pos::new(side, VPos::Center));
        self.backend.draw_text(&text, &style, place(at)).map_err(failed)
    }
}
